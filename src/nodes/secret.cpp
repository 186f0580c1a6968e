#include "nodes/secret.h"

#include <sodium.h>

#include <utility>

#include "core/errors/check.h"
#include "core/errors/error.h"

namespace nibble::nodes {
namespace {

static_assert(sizeof(Digest) == crypto_auth_hmacsha256_BYTES);

void start_sodium() {
  NIBBLE_CHECK(sodium_init() >= 0);  // sodium_init() may be called more than once
}

}  // namespace

Digest random_nonce() {
  start_sodium();
  Digest nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Secret::Secret(std::string bytes, const std::string& origin) : bytes_(std::move(bytes)) {
  start_sodium();
  if (bytes_.size() < kLeastBytes)
    throw InputError(
        "{}: a secret needs at least {} bytes, but this one has {}; 'openssl rand -hex 32' makes one", origin,
        kLeastBytes, bytes_.size());
}

Digest Secret::prove(std::string_view purpose, std::span<const uint8_t> message) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size());
  const std::string label = std::string(purpose) + '\0';  // a zero byte separates purpose and message
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const uint8_t*>(label.data()), label.size());
  crypto_auth_hmacsha256_update(&state, message.data(), message.size());
  Digest proof;
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

bool Secret::is_proof(const Digest& proof, std::string_view purpose, std::span<const uint8_t> message) const {
  return sodium_memcmp(prove(purpose, message).data(), proof.data(), proof.size()) == 0;
}

}  // namespace nibble::nodes
