// Byte-level BPE: text to token ids and back. A split expression divides the text into pieces, and the bytes
// of each piece are merged in order of rank. docs/formats.md describes both kinds of vocabulary files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"

namespace nibble {

// Whether "<|start|>" in a text is the control token or nine ordinary characters. Text from users, tools and
// files is always kOrdinary; only a template written by the calling code is kRecognise.
enum class SpecialTokens { kOrdinary, kRecognise };

class Tokenizer {
 public:
  // Opens a tokenizer.json, a .tiktoken rank file, or a folder with a tokenizer.json. Throws InputError.
  static Tokenizer open(const std::filesystem::path& path);
  // Reads the same formats from memory; `origin` names the source in messages.
  static Tokenizer from_json(std::string_view json, const std::string& origin);
  // For a rank file, which has neither a split expression nor special tokens: uses o200k's expression and
  // o200k_harmony's special tokens. Each has the same distance from the last rank as in o200k_harmony.
  static Tokenizer from_tiktoken(std::string_view ranks, const std::string& origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Accepts any bytes: invalid UTF-8 is encoded byte by byte, so decode(encode(x)) == x. Thread-safe. Throws
  // InputError only if the split expression exceeds PCRE2's match limit; o200k's expression never does.
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const;

  // Returns a token's bytes, or a special token's name; empty for an id without a token. The tokenizer must
  // outlive the result.
  std::string_view bytes(TokenId id) const;
  // Returns the bytes of all tokens. They may be invalid UTF-8; Utf8Stream turns them into valid UTF-8.
  std::string decode(std::span<const TokenId> ids) const;

  bool is_special(TokenId id) const;
  std::optional<TokenId> special(std::string_view name) const;  // id of a special token: special("<|start|>")
  int num_tokens() const;                                       // highest id with a token, plus one

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace nibble
