#pragma once

#include <string>

namespace nibble::server {

std::string random_id();  // 96 bits of the system's random source in hexadecimal: unguessable

}  // namespace nibble::server
