// A body in chunks (RFC 9112, section 7.1), as it arrives. Extensions and trailers are checked and dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::server {

class ChunkedBody {
 public:
  // `max_other_bytes` bounds what there is beside the data.
  ChunkedBody(uint64_t max_body_bytes, size_t max_other_bytes)
      : max_body_bytes_(max_body_bytes), max_other_bytes_(max_other_bytes) {}

  // Reads from the beginning of `bytes` and appends the data to `body`. Returns how many bytes it took: those that are left belong
  // to a line that has not arrived whole, or to the next request. Throws HttpError (400, 413, 431).
  size_t take(std::string_view bytes, std::string& body);

  bool is_done() const { return next_ == Next::kNothing; }

 private:
  enum class Next { kSize, kData, kEndOfData, kTrailer, kNothing };

  void read_line(std::string_view line, uint64_t num_body_bytes);
  void read_size(std::string_view line, uint64_t num_body_bytes);

  uint64_t max_body_bytes_;
  size_t max_other_bytes_;
  Next next_{Next::kSize};
  uint64_t num_left_{0};  // bytes of this chunk that are missing
  size_t num_other_bytes_{0};
};

}  // namespace nibble::server
