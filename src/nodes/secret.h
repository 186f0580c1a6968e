// The secret that all nodes share, and proofs that a node knows it.
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
  // Throws InputError for fewer than kLeastBytes; `origin` names the source of the secret in the message.
  Secret(std::string bytes, const std::string& origin);

  // Returns the HMAC-SHA256 of `purpose` and `message`. The proof is valid only for this purpose.
  Digest prove(std::string_view purpose, std::span<const uint8_t> message) const;
  // Checks a proof in constant time.
  bool is_proof(const Digest& proof, std::string_view purpose, std::span<const uint8_t> message) const;

 private:
  std::string bytes_;
};

}  // namespace nibble::nodes
