#include "formats/safetensors_writer.h"

#include <algorithm>

#include "core/errors/check.h"
#include "core/text/json.h"

namespace nibble {
namespace {

constexpr size_t kDataAlignment{64};

uint64_t num_bytes(const SafetensorsEntry& entry) {
  const auto count = num_elements(entry.shape);
  // The widest type has 64 bits, so the next product can't overflow.
  NIBBLE_CHECK(count && *count <= UINT64_MAX / 64, "{} {}", entry.name, entry.shape);
  const uint64_t bits = *count * static_cast<uint64_t>(num_bits(entry.dtype));
  NIBBLE_CHECK(bits % 8 == 0, "{} is {} bits", entry.name, bits);
  return bits / 8;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries)
    : entries_(std::move(entries)), file_(path) {
  std::ranges::stable_sort(entries_, std::ranges::greater{},
                           [](const auto& entry) { return num_bits(entry.dtype); });
  Json header;
  header["__metadata__"]["format"] = "pt";  // without this entry, transformers refuses the file
  for (const SafetensorsEntry& entry : entries_) {
    NIBBLE_CHECK(!header.contains(entry.name), "{} is given twice", entry.name);
    const uint64_t begin = missing_bytes_;
    missing_bytes_ += num_bytes(entry);
    header[entry.name] = {
        {"dtype", name(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {begin, missing_bytes_}}};
  }
  std::string text = header.dump();
  uint64_t length = 0;
  const size_t unpadded = sizeof(length) + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  NIBBLE_CHECK(bytes.size() <= missing_bytes_, "{} bytes given, {} missing", bytes.size(), missing_bytes_);
  file_.write(bytes);
  missing_bytes_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  NIBBLE_CHECK(missing_bytes_ == 0, "{} bytes were never given", missing_bytes_);
  file_.finish();
}

}  // namespace nibble
