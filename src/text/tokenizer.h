// Byte-level BPE: text to token ids and back. The pre-tokeniser's expression cuts the text into pieces, bytes of a piece
// are merged by rank. See docs/formats.md for what the two kinds of vocabulary file hold.
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

// Whether "<|start|>" in a text is the control token or eight characters. Text of users, tools and files is always
// kOrdinary: only our own templates are kRecognise.
enum class SpecialTokens { kOrdinary, kRecognise };

class Tokenizer {
 public:
  // A `tokenizer.json`, a `.tiktoken` rank file, or a folder that holds a tokenizer.json. Throws InputError.
  static Tokenizer open(const std::filesystem::path& path);
  // The same from memory; `origin` names the source in messages.
  static Tokenizer from_json(std::string_view json, const std::string& origin);
  // A rank file holds no expression and no special tokens: they are o200k's, the latter o200k_harmony's, where the
  // ranks number 199,998; a smaller rank file gets the harmony tokens at the same distances after its last rank.
  static Tokenizer from_tiktoken(std::string_view ranks, const std::string& origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes: invalid UTF-8 is encoded byte by byte, nothing is dropped. decode(encode(x)) == x. Thread-safe.
  // Throws InputError only where the vocabulary's split expression (not o200k's) needs unreasonably many steps.
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const;

  // The bytes of one token; of a special token its name. Empty for an id that has no token. The view lives as long as
  // the tokenizer.
  std::string_view bytes(TokenId id) const;
  std::string decode(std::span<const TokenId> ids) const;  // bytes, perhaps not valid UTF-8: see Utf8Stream

  bool is_special(TokenId id) const;
  std::optional<TokenId> special(std::string_view name) const;  // "<|start|>"
  int num_tokens() const;  // one more than the highest id that has a token

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace nibble
