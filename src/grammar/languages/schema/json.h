#pragma once

#include "core/text/json_fwd.h"

namespace nibble::grammar {

using Json = nlohmann::ordered_json;  // objects keep the order of their members

}  // namespace nibble::grammar
