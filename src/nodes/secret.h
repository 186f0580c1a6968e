// The secret that all nodes share, and proofs of having it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nibble::nodes {

using Digest = std::array<uint8_t, 32>;

Digest random_nonce();

class Secret {
 public:
  static constexpr size_t kLeastBytes{16};
  // Throws InputError where it is shorter than that; `origin` says where it came from.
  Secret(std::string bytes, const std::string& origin);

  // HMAC-SHA256 of `purpose`, so that a proof for one is none for another, and of the message.
  Digest prove(std::string_view purpose, std::span<const uint8_t> message) const;
  // Takes the same time whatever differs.
  bool is_proof(const Digest& proof, std::string_view purpose, std::span<const uint8_t> message) const;

 private:
  std::string bytes_;
};

}  // namespace nibble::nodes
