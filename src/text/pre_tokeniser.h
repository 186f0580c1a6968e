// Cuts text into pieces, which are then merged each for itself: matches of the split expression, and what lies between
// two matches (Hugging Face: Split with behaviour "Isolated"; o200k's expression leaves nothing between).
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
  // Throws InputError, which begins with `origin`, where the expression is not understood.
  PreTokeniser(std::string_view expression, const std::string& origin);

  class Pieces;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, FreeCode>;

  static Code compile(const std::string& pattern, const std::string& origin);

  // Twice: with every character of Unicode 16 the code takes four times as long on any text, so it is for texts that have
  // a character which PCRE2 doesn't know by itself.
  Code code_, unicode_16_code_;
  std::string origin_;
};

// The pieces of one text after another; each thread has its own.
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
  size_t begin_{0};  // of the next piece
  Match match_;      // the last one found: ahead of begin_, at it, or ending there
};

}  // namespace nibble
