#pragma once

#include <cstddef>

namespace nibble {

constexpr size_t as_size(int extent) { return static_cast<size_t>(extent); }  // extent: not negative

}  // namespace nibble
