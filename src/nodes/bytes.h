// Encoding of messages between nodes: little-endian integers, and texts of fixed width.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors/error.h"

namespace nibble::nodes {

static_assert(std::endian::native == std::endian::little);

using Bytes = std::vector<uint8_t>;

class Writer {
 public:
  template <std::unsigned_integral Number>
  void number(Number value) {
    bytes_.resize(bytes_.size() + sizeof value);
    std::memcpy(bytes_.data() + bytes_.size() - sizeof value, &value, sizeof value);
  }
  void raw(std::span<const uint8_t> more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  // Writes exactly `width` bytes: cuts a longer text, pads a shorter one with zeros.
  void text(std::string_view value, size_t width) {
    const std::string_view kept = value.substr(0, width);
    bytes_.insert(bytes_.end(), kept.begin(), kept.end());
    bytes_.resize(bytes_.size() + width - kept.size());
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {  // reads a message; throws InputError if the message ends too early
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}

  template <std::unsigned_integral Number>
  Number number() {
    Number value;
    std::memcpy(&value, raw(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const uint8_t> raw(size_t count) {
    if (count > left_.size()) throw InputError("a message is {} bytes too short", count - left_.size());
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  // Reads a text up to its first zero. Bytes other than printable ASCII become '?', for use in logs.
  std::string text(size_t width) {
    std::string value;
    for (const uint8_t byte : raw(width)) {
      if (byte == 0) break;
      value += byte >= ' ' && byte <= '~' ? static_cast<char>(byte) : '?';
    }
    return value;
  }

 private:
  std::span<const uint8_t> left_;
};

}  // namespace nibble::nodes
