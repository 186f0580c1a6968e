// Byte-level BPE: text to token ids and back. The pre-tokeniser's expression cuts the text into pieces, and the bytes of each
// piece are merged by rank. docs/formats.md describes the two kinds of vocabulary file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token.h"

namespace nibble {

// Decides whether "<|start|>" in a text is the control token or nine characters. Text of users, tools and files is always
// encoded as kOrdinary, and only text that the caller wrote as a template as kRecognise.
enum class SpecialTokens { kOrdinary, kRecognise };

class Tokenizer {
 public:
  // A `tokenizer.json`, a `.tiktoken` rank file, or a folder that holds a tokenizer.json. Throws InputError.
  static Tokenizer open(const std::filesystem::path& path);
  // The same from memory; `origin` names the source in messages.
  static Tokenizer from_json(std::string_view json, const std::string& origin);
  // A rank file has neither a split expression nor special tokens. The expression is o200k's. The special tokens are those of
  // o200k_harmony, at the same distances behind the last rank as behind o200k's 199,998 ranks.
  static Tokenizer from_tiktoken(std::string_view ranks, const std::string& origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Accepts any bytes: invalid UTF-8 is encoded byte by byte, so decode(encode(x)) == x. Thread-safe. Throws InputError only
  // if the vocabulary's split expression exceeds PCRE2's match limit, which o200k's never does.
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const;

  // The bytes of one token, or the name of a special token; empty for an id without a token. The view lives as long as the
  // tokenizer.
  std::string_view bytes(TokenId id) const;
  std::string decode(std::span<const TokenId> ids) const;  // may be invalid UTF-8: see Utf8Stream

  bool is_special(TokenId id) const;
  std::optional<TokenId> special(std::string_view name) const;  // "<|start|>"
  int num_tokens() const;  // one more than the highest id that has a token

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace nibble
