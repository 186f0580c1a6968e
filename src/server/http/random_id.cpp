#include "server/http/random_id.h"

#include <fmt/format.h>

#include <random>

namespace nibble::server {

std::string random_id() {
  thread_local std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

}  // namespace nibble::server
