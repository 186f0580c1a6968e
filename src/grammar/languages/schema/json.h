#pragma once

#include "core/json_fwd.h"

namespace nibble::grammar {

using Json = nlohmann::ordered_json;  // members keep the order of the text

}  // namespace nibble::grammar
