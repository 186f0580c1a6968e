// Finds the names of this program's kernels by their addresses.
#pragma once

#include <string>

namespace nibble::emulated {

// Returns "qkv_kernel<0, 16, 3>": without namespaces, types of template arguments, return type, parameters.
std::string kernel_name(const void* kernel);

}  // namespace nibble::emulated
