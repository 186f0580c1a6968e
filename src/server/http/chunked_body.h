// Decodes a chunked body (RFC 9112, section 7.1) as it arrives. Checks and drops extensions and trailers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::server {

class ChunkedBody {
 public:
  // `max_other_bytes`: limit on extensions and trailers together.
  ChunkedBody(uint64_t max_body_bytes, size_t max_other_bytes)
      : max_body_bytes_(max_body_bytes), max_other_bytes_(max_other_bytes) {}

  // Appends the data of `bytes` to `body`. Returns the number of bytes consumed; the remaining bytes are an
  // incomplete line or the next request. Throws HttpError (400, 413, 431).
  size_t take(std::string_view bytes, std::string& body);

  bool is_done() const { return next_ == Next::kNothing; }

 private:
  enum class Next { kSize, kData, kEndOfData, kTrailer, kNothing };

  void read_line(std::string_view line, uint64_t num_body_bytes);
  void read_size(std::string_view line, uint64_t num_body_bytes);

  uint64_t max_body_bytes_;
  size_t max_other_bytes_;
  Next next_{Next::kSize};
  uint64_t num_left_{0};  // bytes of the current chunk still to come
  size_t num_other_bytes_{0};
};

}  // namespace nibble::server
