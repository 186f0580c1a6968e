// Where the keys and values of a layer lie in a page of the KV cache.
//
// A page holds kPageTokens positions of all full or of all sliding layers, and any page can be used for
// either kind. So it has room for as many layers as the kind with more layers has.
#pragma once

#include <vector>

#include "model/config.h"

namespace nibble {

// Returns the index of each layer among the layers of its kind. Two layers with the same index share
// storage, but never a page at the same time.
std::vector<int> page_layers(const Config& config);  // [num_layers]
int num_page_layers(const Config& config);

}  // namespace nibble
