#include "server/http/gzip.h"

#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstdint>

#include "core/errors/check.h"

namespace nibble::server {
namespace {

void append_little_endian(uint32_t number, std::string& out) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift);
}

}  // namespace

std::string gzipped(std::string_view text) {
  namespace zlib = boost::beast::zlib;
  // A gzip header: deflate, no name, no time, unknown system.
  constexpr std::string_view kHeader{"\x1f\x8b\x08\0\0\0\0\0\0\xff", 10};
  std::string out(kHeader);
  zlib::deflate_stream deflate;
  deflate.reset(6, 15, 8, zlib::Strategy::normal);
  const size_t begin = out.size();
  out.resize(begin + deflate.upper_bound(text.size()));
  zlib::z_params params;
  params.next_in = text.data();
  params.avail_in = text.size();
  params.next_out = out.data() + begin;
  params.avail_out = out.size() - begin;
  boost::system::error_code error;
  deflate.write(params, zlib::Flush::finish, error);
  NIBBLE_CHECK(error == zlib::error::end_of_stream, "{}", error.message());
  out.resize(begin + params.total_out);
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  append_little_endian(crc.checksum(), out);
  append_little_endian(static_cast<uint32_t>(text.size()), out);
  return out;
}

}  // namespace nibble::server
