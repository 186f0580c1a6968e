// Names of the kernels of this program, by their addresses.
#pragma once

#include <string>

namespace nibble::emulated {

// "qkv_kernel<0, 16, 3>": without namespaces, types of template arguments, return type and parameters.
std::string kernel_name(const void* kernel);

}  // namespace nibble::emulated
