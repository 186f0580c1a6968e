// The full-size vocabulary for tests and benchmarks, as a rank file and as an equivalent tokenizer.json. The
// files are made without nibble's loaders, so that they can test the loaders.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/text/json.h"
#include "tests/folders.h"

namespace nibble::test {

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + " is not there");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the path of the rank file, which the build unpacks (cmake/TestData.cmake).
inline std::string o200k_path() { return test::build_path("test_data/o200k_base.tiktoken"); }

inline std::string from_base64(const std::string& digits) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits, bytes;
  for (const char digit : digits.substr(0, digits.find('=')))
    for (int bit = 5; bit >= 0; --bit) bits += kDigits.find(digit) >> bit & 1 ? '1' : '0';
  for (size_t at = 0; at + 8 <= bits.size(); at += 8)
    bytes += char(std::stoi(bits.substr(at, 8), nullptr, 2));
  return bytes;
}

// Returns the tokens, ordered by rank.
inline std::vector<std::string> tokens_of(const std::string& ranks) {
  std::vector<std::string> tokens;
  std::istringstream lines(ranks);
  std::string digits;
  for (size_t rank; lines >> digits >> rank;) {
    tokens.resize(std::max(tokens.size(), rank + 1));
    tokens[rank] = from_base64(digits);
  }
  return tokens;
}

// Returns the ByteLevel alphabet, in UTF-8.
inline std::array<std::string, 256> byte_letters() {
  std::array<std::string, 256> letters;
  int moved = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool stays = (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) || 0xAE <= byte;
    const int code = stays ? byte : moved++;
    letters[size_t(byte)] = code < 0x80 ? std::string(1, char(code))
                                        : std::string{char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
  }
  return letters;
}

inline std::string byte_level(std::string_view bytes) {
  static const auto kLetters = byte_letters();
  std::string text;
  for (const char byte : bytes) text += kLetters[uint8_t(byte)];
  return text;
}

// Returns a tokenizer.json like gpt-oss's, but without vocabulary, merges and added tokens, as JSON that a
// test can change.
inline nlohmann::json pipeline() {
  auto json = nlohmann::json::parse(file_bytes(test::source_path("models/tiny-gpt-oss/tokenizer.json")));
  json["model"]["vocab"] = nlohmann::json::object();
  json["model"]["merges"] = nlohmann::json::array();
  json["added_tokens"] = nlohmann::json::array();
  return json;
}

// Returns a tokenizer.json with the merges of gpt-oss's file. Every way to split a token into two tokens is a
// merge. The order is by token, then by the rank of the left half (which determines the right half).
inline nlohmann::json tokenizer_json(const std::vector<std::string>& tokens) {
  auto json = pipeline();
  std::unordered_map<std::string_view, size_t> rank_of;
  for (size_t rank = 0; rank < tokens.size(); ++rank) rank_of[tokens[rank]] = rank;
  auto& vocab = json["model"]["vocab"];
  auto& merges = json["model"]["merges"];
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    vocab[byte_level(token)] = rank;
    std::vector<std::pair<size_t, size_t>> cuts;
    for (size_t cut = 1; cut < token.size(); ++cut)
      if (rank_of.count(token.substr(0, cut)) && rank_of.count(token.substr(cut)))
        cuts.emplace_back(rank_of[token.substr(0, cut)], rank_of[token.substr(cut)]);
    std::sort(cuts.begin(), cuts.end());
    for (const auto& [left, right] : cuts)
      merges.push_back({byte_level(tokens[left]), byte_level(tokens[right])});
  }
  return json;
}

}  // namespace nibble::test
