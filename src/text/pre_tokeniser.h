// Splits text into pieces; tokens are merged only within a piece. A piece is a match of the split expression,
// or the text between two matches (as Split with behaviour "Isolated" in Hugging Face's tokenizers). The
// matches of o200k's expression leave no text between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace nibble {

class PreTokeniser {
 public:
  // Throws an InputError that begins with `origin` if the expression is not understood.
  PreTokeniser(std::string_view expression, const std::string& origin);

  class Pieces;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, FreeCode>;

  static Code compile(const std::string& pattern, const std::string& origin);

  // The split expression with PCRE2's own categories, and with those of Unicode 16. The second is four times
  // as slow, so it runs only on texts with a character that Unicode 15 or 16 added.
  Code code_, unicode_16_code_;
  std::string origin_;
};

// Iterates over the pieces of a text; start() begins a new text. Each thread needs its own object.
class PreTokeniser::Pieces {
 public:
  explicit Pieces(const PreTokeniser& pre_tokeniser);

  void start(std::string_view text);  // must be well-formed UTF-8
  std::optional<std::string_view> next();

 private:
  struct Match {
    size_t begin{0}, end{0};
  };
  struct FreeData {
    void operator()(pcre2_real_match_data_8* data) const;
  };

  Match match_that_ends_after(size_t begin) const;
  std::optional<Match> search(size_t from) const;

  const PreTokeniser& pre_tokeniser_;
  std::unique_ptr<pcre2_real_match_data_8, FreeData> data_;
  const pcre2_real_code_8* code_{nullptr};
  std::string_view text_;
  size_t begin_{0};  // start of the next piece
  Match match_;      // last match found: starts at or after begin_, or ends at begin_
};

}  // namespace nibble
