// Places of the layers' keys and values in a page of the KV cache.
//
// A page holds kPageTokens positions of all full or of all sliding layers, and any page can be used for
// either kind. So a page has room for the layers of the kind with more layers.
#pragma once

#include <vector>

#include "model/config.h"

namespace nibble {

// Returns the index of each layer among the layers of its kind. A full and a sliding layer with the same
// index have the same place in a page. They do not collide, because a page holds layers of one kind.
std::vector<int> page_layers(const Config& config);  // [num_layers]
int num_page_layers(const Config& config);

}  // namespace nibble
