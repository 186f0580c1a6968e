#pragma once

#include <string>
#include <string_view>

namespace nibble::server {

std::string gzipped(std::string_view text);  // compresses as in RFC 1952

}  // namespace nibble::server
