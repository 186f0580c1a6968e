#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "core/program/log.h"
#include "core/tensors/buffer.h"
#include "formats/container_error.h"
#include "formats/untrusted_json.h"

namespace nibble {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

using Fault = ContainerFault;
using simdjson::dom::element;

constexpr std::string_view kMetadataKey{"__metadata__"};
constexpr size_t kMaxDepth{3};  // levels: header object, entry object, array of the shape

struct Entry {  // a tensor's entry in the header, before its sizes are checked
  std::string_view name;
  DType dtype{};
  Shape shape;
  uint64_t begin = 0, end = 0;  // offsets in bytes, from the start of the data
};

// Refuses a name that occurs twice in a JSON object, because readers disagree about which value counts.
class UniqueNames {
 public:
  void add(std::string_view name, const std::filesystem::path& path) {
    if (!names_.insert(name).second) throw ContainerError(Fault::kDuplicateName, path, "{}", in_quotes(name));
  }

 private:
  std::unordered_set<std::string_view> names_;
};

uint64_t header_bytes(std::span<const std::byte> file, const std::filesystem::path& path) {
  uint64_t num_bytes = 0;
  if (file.size() < sizeof(num_bytes))
    throw ContainerError(Fault::kTruncated, path, "it has {} bytes; the header's length alone takes 8",
                         file.size());
  std::memcpy(&num_bytes, file.data(), sizeof(num_bytes));
  if (num_bytes > kMaxSafetensorsHeaderBytes)
    throw ContainerError(Fault::kHeaderTooLarge, path, "{} bytes; the maximum is {}", num_bytes,
                         kMaxSafetensorsHeaderBytes);
  if (num_bytes > file.size() - sizeof(num_bytes))
    throw ContainerError(Fault::kTruncated, path,
                         "the header needs {} bytes, but the file has only {} after the header's length",
                         num_bytes, file.size() - sizeof(num_bytes));
  return num_bytes;
}

void check_metadata(element value, const std::filesystem::path& path) {
  simdjson::dom::object metadata;
  if (value.get(metadata))
    throw ContainerError(Fault::kBadMetadata, path, "{} is not an object", kMetadataKey);
  UniqueNames keys;
  for (const auto [key, text] : metadata) {
    keys.add(key, path);
    if (!text.is_string())
      throw ContainerError(Fault::kBadMetadata, path, "{} is not a string", in_quotes(key));
  }
}

DType parse_dtype(element value, std::string_view tensor, const std::filesystem::path& path) {
  std::string_view text;
  if (value.get(text))
    throw ContainerError(Fault::kBadEntry, path, "dtype of {} is not a string", in_quotes(tensor));
  const std::optional<DType> dtype = dtype_of(text);
  if (!dtype)
    throw ContainerError(Fault::kUnknownDType, path, "{} is of type {}", in_quotes(tensor), in_quotes(text));
  return *dtype;
}

std::vector<uint64_t> parse_counts(element value, std::string_view field, std::string_view tensor,
                                   const std::filesystem::path& path) {
  simdjson::dom::array array;
  if (value.get(array))
    throw ContainerError(Fault::kBadEntry, path, "{} of {} is not an array", field, in_quotes(tensor));
  std::vector<uint64_t> counts;
  for (const element number : array) {
    uint64_t count = 0;
    if (number.get(count))
      throw ContainerError(Fault::kBadNumber, path, "{} of {} holds {}, which is not an unsigned integer",
                           field, in_quotes(tensor), in_quotes(simdjson::minify(number)));
    counts.push_back(count);
  }
  return counts;
}

Entry parse_entry(std::string_view name, element value, const std::filesystem::path& path) {
  simdjson::dom::object object;
  if (value.get(object)) throw ContainerError(Fault::kBadEntry, path, "{} is not an object", in_quotes(name));
  Entry entry{};
  entry.name = name;
  UniqueNames fields;
  for (const auto [field, content] : object) {
    fields.add(field, path);
    if (field == "dtype") {
      entry.dtype = parse_dtype(content, name, path);
    } else if (field == "shape") {
      entry.shape = parse_counts(content, field, name, path);
    } else if (field == "data_offsets") {
      const std::vector<uint64_t> offsets = parse_counts(content, field, name, path);
      if (offsets.size() != 2)
        throw ContainerError(Fault::kBadEntry, path, "{} of {} has {} numbers, not 2", field, in_quotes(name),
                             offsets.size());
      entry.begin = offsets[0];
      entry.end = offsets[1];
    } else {
      throw ContainerError(Fault::kBadEntry, path, "{} has an unknown field {}", in_quotes(name),
                           in_quotes(field));
    }
  }
  // The fields that were read are known and distinct, so if there are three, none is missing.
  constexpr size_t kNumFields{3};
  if (object.size() != kNumFields)
    throw ContainerError(Fault::kBadEntry, path, "{} must have dtype, shape and data_offsets",
                         in_quotes(name));
  return entry;
}

std::string to_text(const Shape& shape) {
  constexpr size_t kMaxShown{8};
  return shape.size() <= kMaxShown ? fmt::to_string(shape) : fmt::format("of rank {}", shape.size());
}

// Checks that the number of bytes between the offsets fits shape and dtype.
void check_size(const Entry& entry, const std::filesystem::path& path) {
  if (entry.end < entry.begin)
    throw ContainerError(Fault::kReversedOffsets, path, "{} begins at byte {} and ends at {}",
                         in_quotes(entry.name), entry.begin, entry.end);
  const std::optional<uint64_t> count = num_elements(entry.shape);
  uint64_t bits = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<uint64_t>(num_bits(entry.dtype)), &bits))
    throw ContainerError(Fault::kSizeOverflow, path, "{} is {} {}", in_quotes(entry.name), entry.dtype,
                         to_text(entry.shape));
  if (bits % 8 != 0)
    throw ContainerError(Fault::kPartialByte, path, "{} is {} bits", in_quotes(entry.name), bits);
  if (bits / 8 != entry.end - entry.begin)
    throw ContainerError(Fault::kSizeMismatch, path, "{} needs {} bytes as {} {}, but its data has {}",
                         in_quotes(entry.name), bits / 8, entry.dtype, to_text(entry.shape),
                         entry.end - entry.begin);
}

// Checks that the tensors, sorted by offset, cover the data from its start to its end without gaps. An empty
// tensor must come before the tensor that begins at the same offset.
void check_layout(const std::vector<Entry>& sorted, uint64_t data_bytes, const std::filesystem::path& path) {
  uint64_t end = 0;
  for (const Entry& entry : sorted) {
    if (entry.begin != end)
      throw ContainerError(entry.begin < end ? Fault::kOverlap : Fault::kGap, path,
                           "{} begins at byte {} of the data, but the previous tensor ends at {}",
                           in_quotes(entry.name), entry.begin, end);
    end = entry.end;
  }
  if (end != data_bytes)
    throw ContainerError(end > data_bytes ? Fault::kTruncated : Fault::kTrailingBytes, path,
                         "the tensors need {} bytes, but the file has {} of tensor data", end, data_bytes);
}

std::vector<Entry> parse_header(simdjson::dom::parser& parser, std::string_view header,
                                const std::filesystem::path& path) {
  if (!header.starts_with('{'))
    throw ContainerError(Fault::kHeaderNotObject, path, "it begins with {}", in_quotes(header.substr(0, 8)));
  const simdjson::dom::object root = parse_untrusted_json(parser, header, kMaxDepth, path);
  std::vector<Entry> entries;
  UniqueNames names;
  for (const auto [name, value] : root) {
    names.add(name, path);
    if (name == kMetadataKey) {
      check_metadata(value, path);
    } else {
      entries.push_back(parse_entry(name, value, path));
    }
  }
  return entries;
}

struct Storage {  // memory that holds a container's tensors
  MappedFile file;
  std::vector<Buffer> aligned;  // copies of tensors that are not aligned in the file
};

}  // namespace

std::vector<Tensor> parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path) {
  const uint64_t num_header_bytes = header_bytes(file, path);
  const auto header = file.subspan(sizeof(num_header_bytes), num_header_bytes);
  const auto data = file.subspan(sizeof(num_header_bytes) + num_header_bytes);

  simdjson::dom::parser parser;  // owns the names in the entries
  std::vector<Entry> entries =
      parse_header(parser, {reinterpret_cast<const char*>(header.data()), header.size()}, path);
  for (const Entry& entry : entries) check_size(entry, path);
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(entries, data.size(), path);

  std::vector<Tensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries)
    tensors.push_back({.name = std::string(entry.name),
                       .dtype = entry.dtype,
                       .shape = std::move(entry.shape),
                       .data = data.subspan(entry.begin, entry.end - entry.begin)});
  return tensors;
}

Container open_safetensors(MappedFile file) {
  auto storage = std::make_shared<Storage>(Storage{.file = std::move(file), .aligned = {}});
  const std::filesystem::path& path = storage->file.path();
  Container container;
  container.tensors = parse_safetensors(storage->file.bytes(), path);
  container.files = {path};
  size_t num_copied_bytes = 0;
  for (Tensor& tensor : container.tensors) {
    const auto alignment = static_cast<uintptr_t>(std::max(num_bits(tensor.dtype) / 8, 1));
    if (reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment == 0) continue;
    const Buffer& copy = storage->aligned.emplace_back(tensor.data.size());
    std::ranges::copy(tensor.data, copy.data());
    tensor.data = {copy.data(), copy.bytes()};
    num_copied_bytes += copy.bytes();
  }
  if (!storage->aligned.empty())
    log::info("{}: copied {} tensors ({} bytes) that are not aligned for their dtype", path.string(),
              storage->aligned.size(), num_copied_bytes);
  container.mapped = {std::shared_ptr<const MappedFile>(storage, &storage->file)};
  container.storage = std::move(storage);
  container.index();
  return container;
}

}  // namespace nibble
