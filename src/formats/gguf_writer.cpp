#include "formats/gguf_writer.h"

#include <bit>
#include <cstring>

#include "core/errors/check.h"

namespace nibble {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <typename T>
void append_number(std::string& bytes, T number) {
  char raw[sizeof(T)];
  std::memcpy(raw, &number, sizeof(T));
  bytes.append(raw, sizeof(T));
}

void append_string(std::string& bytes, std::string_view text) {
  append_number<uint64_t>(bytes, text.size());
  bytes += text;
}

uint64_t align_up(uint64_t bytes) { return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

}  // namespace

size_t num_bytes(const GgufEntry& entry) {
  const auto count = num_elements(entry.shape);
  NIBBLE_CHECK(count && *count % block_elements(entry.type) == 0 && *count <= UINT64_MAX / 256, "{} {}",
               entry.name, entry.shape);
  return *count / block_elements(entry.type) * block_bytes(entry.type);
}

void GgufMetadata::begin(std::string_view key, GgufType type) {
  append_string(bytes_, key);
  append_number(bytes_, type);
  ++count_;
}

void GgufMetadata::begin_array(std::string_view key, GgufType element_type, size_t count) {
  begin(key, GgufType::kArray);
  append_number(bytes_, element_type);
  append_number<uint64_t>(bytes_, count);
}

void GgufMetadata::add(std::string_view key, uint32_t value) {
  begin(key, GgufType::kU32);
  append_number(bytes_, value);
}

void GgufMetadata::add(std::string_view key, float value) {
  begin(key, GgufType::kF32);
  append_number(bytes_, value);
}

void GgufMetadata::add(std::string_view key, bool value) {
  begin(key, GgufType::kBool);
  append_number<uint8_t>(bytes_, value);
}

void GgufMetadata::add(std::string_view key, std::string_view value) {
  begin(key, GgufType::kString);
  append_string(bytes_, value);
}

void GgufMetadata::add(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) append_string(bytes_, value);
}

void GgufMetadata::add(std::string_view key, const std::vector<int32_t>& values) {
  begin_array(key, GgufType::kI32, values.size());
  for (const int32_t value : values) append_number(bytes_, value);
}

void GgufMetadata::add_booleans(std::string_view key, const std::vector<uint8_t>& values) {
  begin_array(key, GgufType::kBool, values.size());
  for (const uint8_t value : values) append_number(bytes_, value);
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::vector<GgufEntry> entries)
    : entries_(std::move(entries)), file_(path) {
  std::string header = "GGUF";
  append_number(header, kGgufVersion);
  append_number<uint64_t>(header, entries_.size());
  append_number(header, metadata.count());
  header += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufEntry& entry : entries_) {
    append_string(header, entry.name);
    append_number(header, static_cast<uint32_t>(entry.shape.size()));
    for (auto extent = entry.shape.rbegin(); extent != entry.shape.rend(); ++extent)
      append_number(header, *extent);
    append_number(header, entry.type);
    append_number(header, offset);
    offset += align_up(num_bytes(entry));
  }
  write(header);
  pad();
  if (!entries_.empty()) missing_bytes_ = num_bytes(entries_[0]);
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  NIBBLE_CHECK(next_ < entries_.size() && bytes.size() <= missing_bytes_, "{} bytes given, {} missing",
               bytes.size(), missing_bytes_);
  write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  missing_bytes_ -= bytes.size();
  if (missing_bytes_ > 0) return;
  pad();
  if (++next_ < entries_.size()) missing_bytes_ = num_bytes(entries_[next_]);
}

void GgufWriter::finish() {
  NIBBLE_CHECK(next_ == entries_.size(), "{} of {} tensors were given", next_, entries_.size());
  file_.finish();
}

void GgufWriter::write(std::string_view bytes) {
  file_.write(bytes);
  num_written_ += bytes.size();
}

void GgufWriter::pad() { write(std::string(align_up(num_written_) - num_written_, '\0')); }

}  // namespace nibble
