#include "server/http/chunked_body.h"

#include <algorithm>
#include <charconv>

#include "server/http/http_error.h"
#include "server/http/http_line.h"

namespace nibble::server {
namespace {

// Consumes a quoted string, in which '\\' escapes a character. Returns false if the closing quote is missing.
bool take_quoted(std::string_view& text) {
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size()) return false;
  text.remove_prefix(end + 1);
  return true;
}

// Whether `text` is a list of chunk extensions: ";NAME" or ";NAME=VALUE" (VALUE: token or quoted string).
bool are_extensions(std::string_view text) {
  const auto take = [&](size_t length) {
    text.remove_prefix(length);
    return length > 0;
  };
  const auto skip_blanks = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size())); };
  while (!text.empty()) {
    skip_blanks();
    if (!take(text.starts_with(';'))) return false;
    skip_blanks();
    if (!take(token_length(text))) return false;
    const std::string_view rest = text;
    skip_blanks();
    if (!take(text.starts_with('='))) {
      text = rest;
      continue;
    }
    skip_blanks();
    if (!(text.starts_with('"') ? take_quoted(text) : take(token_length(text)))) return false;
  }
  return true;
}

}  // namespace

size_t ChunkedBody::take(std::string_view bytes, std::string& body) {
  const size_t num_given = bytes.size();
  while (!is_done() && !bytes.empty()) {
    if (next_ == Next::kData) {
      const size_t num_taken = static_cast<size_t>(std::min<uint64_t>(num_left_, bytes.size()));
      body.append(bytes.substr(0, num_taken));
      bytes.remove_prefix(num_taken);
      num_left_ -= num_taken;
      if (num_left_ == 0) next_ = Next::kEndOfData;
      continue;
    }
    // Check the bytes after a chunk's data at once, because the end of their line may never arrive.
    if (next_ == Next::kEndOfData && !std::string_view("\r\n").starts_with(bytes.substr(0, 2)))
      throw HttpError(400, "a chunk is longer than its stated size");
    const auto line = take_line(bytes);
    if (num_other_bytes_ + (line ? line->size() : bytes.size()) > max_other_bytes_)
      throw HttpError(431, "the chunk extensions and trailers are too large: at most {} bytes are accepted",
                      max_other_bytes_);
    if (!line) break;
    read_line(*line, body.size());
  }
  return num_given - bytes.size();
}

void ChunkedBody::read_line(std::string_view line, uint64_t num_body_bytes) {
  switch (next_) {
    case Next::kSize:
      return read_size(line, num_body_bytes);
    case Next::kEndOfData:
      next_ = Next::kSize;
      return;
    case Next::kTrailer:
      num_other_bytes_ += line.size();
      if (line.empty())
        next_ = Next::kNothing;
      else
        split_field(line);
      return;
    case Next::kData:
    case Next::kNothing:
      return;
  }
}

// Parses a chunk's first line, "1F" or "1F;NAME=VALUE".
void ChunkedBody::read_size(std::string_view line, uint64_t num_body_bytes) {
  constexpr size_t kMaxDigits{16};
  uint64_t size{};
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto num_digits = static_cast<size_t>(end - line.data());
  const std::string_view extensions = line.substr(num_digits);
  if (error == std::errc::invalid_argument || num_digits > kMaxDigits || !are_extensions(extensions))
    throw HttpError(400, "a chunk size must be 1 to 16 hexadecimal digits, followed only by ';NAME=VALUE'");
  if (size > max_body_bytes_ - num_body_bytes)
    throw HttpError(413, "the body is too large: at most {} bytes are accepted", max_body_bytes_);
  num_other_bytes_ += extensions.size();
  num_left_ = size;
  next_ = size == 0 ? Next::kTrailer : Next::kData;
}

}  // namespace nibble::server
