#include "server/http/random_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace nibble::server {

std::string random_id() {
  std::array<uint32_t, 3> bits{};
  if (::getentropy(bits.data(), sizeof bits) != 0)
    throw std::system_error(errno, std::generic_category(), "getentropy");
  return fmt::format("{:08x}{:08x}{:08x}", bits[0], bits[1], bits[2]);
}

}  // namespace nibble::server
