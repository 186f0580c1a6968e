#include "formats/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/errors/check.h"
#include "core/program/log.h"
#include "formats/container_error.h"

namespace nibble {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

using Fault = ContainerFault;
namespace fs = std::filesystem;

constexpr std::string_view kMagic{"GGUF"};
constexpr uint32_t kMaxRank{4};

struct TypeRow {
  GgmlType type;
  std::string_view name;
  size_t block_elements, block_bytes;
};
constexpr TypeRow kTypes[] = {
    {GgmlType::kF32, "F32", 1, 4},
    {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kBf16, "BF16", 1, 2},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},
    {GgmlType::kMxfp4, "MXFP4", 32, 17},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},
    {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},
    {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ2K, "Q2_K", 256, 84},
    {GgmlType::kQ3K, "Q3_K", 256, 110},
    {GgmlType::kQ4K, "Q4_K", 256, 144},
    {GgmlType::kQ5K, "Q5_K", 256, 176},
    {GgmlType::kQ6K, "Q6_K", 256, 210},
    {GgmlType::kIq2Xxs, "IQ2_XXS", 256, 66},
    {GgmlType::kIq2Xs, "IQ2_XS", 256, 74},
    {GgmlType::kIq2S, "IQ2_S", 256, 82},
    {GgmlType::kIq3Xxs, "IQ3_XXS", 256, 98},
    {GgmlType::kIq3S, "IQ3_S", 256, 110},
    {GgmlType::kIq4Nl, "IQ4_NL", 32, 18},
    {GgmlType::kIq4Xs, "IQ4_XS", 256, 136},
    {GgmlType::kNvfp4, "NVFP4", 64, 36},
    {GgmlType::kMxfp4Ollama, "Ollama's MXFP4", 32, 17},
};

struct OtherType {  // a type that nibble does not read, with its name for error messages
  uint32_t type;
  std::string_view name;
};
constexpr OtherType kOtherTypes[] = {
    {9, "Q8_1"}, {15, "Q8_K"},  {19, "IQ1_S"}, {24, "I8"},    {25, "I16"},  {26, "I32"},  {27, "I64"},
    {28, "F64"}, {29, "IQ1_M"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {41, "Q1_0"}, {42, "Q2_0"},
};

const TypeRow* find_type(uint32_t type) {
  for (const TypeRow& row : kTypes)
    if (static_cast<uint32_t>(row.type) == type) return &row;
  return nullptr;
}

const TypeRow& row(GgmlType type) {
  const TypeRow* found = find_type(static_cast<uint32_t>(type));
  NIBBLE_CHECK(found, "ggml type {}", static_cast<uint32_t>(type));
  return *found;
}

std::string type_text(uint32_t type) {
  for (const OtherType& other : kOtherTypes)
    if (other.type == type) return fmt::format("{} ({})", other.name, type);
  return fmt::format("{}", type);
}

std::optional<size_t> scalar_bytes(GgufType type) {  // nullopt for strings and arrays
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return std::nullopt;
  }
  return std::nullopt;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

std::optional<int64_t> load_integer(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return load<uint8_t>(from);
    case GgufType::kI8:
      return load<int8_t>(from);
    case GgufType::kU16:
      return load<uint16_t>(from);
    case GgufType::kI16:
      return load<int16_t>(from);
    case GgufType::kU32:
      return load<uint32_t>(from);
    case GgufType::kI32:
      return load<int32_t>(from);
    case GgufType::kI64:
      return load<int64_t>(from);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(from);
      return value <= INT64_MAX ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

class ByteReader {  // reads a file sequentially; throws ContainerError at its end
 public:
  ByteReader(std::span<const std::byte> file, const fs::path& path) : file_(file), path_(path) {}

  std::span<const std::byte> take(uint64_t num_bytes, std::string_view what) {
    if (num_bytes > left())
      throw ContainerError(Fault::kTruncated, path_,
                           "{} needs {} bytes at offset {}, but the file has {} bytes", what, num_bytes, at_,
                           file_.size());
    const auto bytes = file_.subspan(at_, num_bytes);
    at_ += num_bytes;
    return bytes;
  }
  template <typename T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::span<const std::byte> string(std::string_view what) {
    const auto length = number<uint64_t>(what);
    return take(length, what);
  }
  std::string_view text(std::string_view what) {
    const auto bytes = string(what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }
  const fs::path& path() const { return path_; }
  std::span<const std::byte> since(uint64_t begin) const { return file_.subspan(begin, at_ - begin); }

 private:
  std::span<const std::byte> file_;
  const fs::path& path_;
  uint64_t at_{0};
};

void check_booleans(GgufType type, std::span<const std::byte> bytes, std::string_view key,
                    const fs::path& path) {
  if (type != GgufType::kBool) return;
  for (const std::byte byte : bytes)
    if (byte > std::byte{1})
      throw ContainerError(Fault::kBadMetadata, path, "{} is a bool with the value {}", in_quotes(key),
                           std::to_integer<int>(byte));
}

GgufType read_value_type(ByteReader& reader, std::string_view key) {
  const auto type = reader.number<uint32_t>("the type of a value");
  if (type > static_cast<uint32_t>(GgufType::kF64))
    throw ContainerError(Fault::kBadMetadata, reader.path(),
                         "{} has the unknown value type {}; the format defines 0 to 12", in_quotes(key),
                         type);
  return static_cast<GgufType>(type);
}

GgufValue read_array(ByteReader& reader, std::string_view key) {
  GgufValue value{.type = GgufType::kArray, .element_type = read_value_type(reader, key), .bytes = {}};
  value.count = reader.number<uint64_t>("the length of an array");
  if (value.element_type == GgufType::kArray)
    throw ContainerError(Fault::kTooDeep, reader.path(), "{} is an array of arrays", in_quotes(key));
  const uint64_t least_bytes = scalar_bytes(value.element_type).value_or(sizeof(uint64_t));
  if (value.count > reader.left() / least_bytes)
    throw ContainerError(Fault::kTruncated, reader.path(),
                         "{} is an array of {} elements, but only {} bytes follow", in_quotes(key),
                         value.count, reader.left());
  const uint64_t begin = reader.at();
  if (value.element_type == GgufType::kString)
    for (uint64_t i = 0; i < value.count; ++i) reader.string("a string of an array");
  else
    check_booleans(value.element_type, reader.take(value.count * least_bytes, "an array"), key,
                   reader.path());
  value.bytes = reader.since(begin);
  return value;
}

GgufValue read_value(ByteReader& reader, std::string_view key) {
  GgufValue value{.type = read_value_type(reader, key), .bytes = {}};
  if (value.type == GgufType::kArray) return read_array(reader, key);
  if (value.type == GgufType::kString) {
    value.bytes = reader.string("a string");
  } else {
    value.bytes = reader.take(*scalar_bytes(value.type), "a value");
    check_booleans(value.type, value.bytes, key, reader.path());
  }
  return value;
}

uint32_t read_version(ByteReader& reader) {
  if (reader.left() < kMagic.size() + sizeof(uint32_t))
    throw ContainerError(Fault::kTruncated, reader.path(), "it has only {} bytes", reader.left());
  const auto magic = reader.take(kMagic.size(), "the magic");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    throw ContainerError(Fault::kNotTensors, reader.path(), "it does not begin with GGUF");
  return reader.number<uint32_t>("the version");
}

void check_version(uint32_t version, const fs::path& path) {
  if (version == kGgufVersion) return;
  if (version == __builtin_bswap32(kGgufVersion))
    throw ContainerError(Fault::kBadVersion, path, "it is big-endian; expected little-endian");
  throw ContainerError(Fault::kBadVersion, path, "it has version {}; expected {}", version, kGgufVersion);
}

uint64_t alignment_of(const Gguf& gguf, const fs::path& path) {
  const GgufValue* value = gguf.value("general.alignment");
  if (!value) return kGgufAlignment;
  // kLeast: size of the widest element, because tensors are used in place. kMost: more than any page size.
  constexpr int64_t kLeast{8}, kMost{1 << 20};
  const std::optional<int64_t> alignment = value->integer();
  if (!alignment || *alignment < kLeast || *alignment > kMost ||
      !std::has_single_bit(static_cast<uint64_t>(*alignment)))
    throw ContainerError(Fault::kBadMetadata, path,
                         "\"general.alignment\" is not a power of two from {} to {}", kLeast, kMost);
  return static_cast<uint64_t>(*alignment);
}

struct TensorInfo {
  GgufTensor tensor;
  uint64_t num_bytes, offset;
};

uint64_t tensor_bytes(const GgufTensor& tensor, const TypeRow& type, const fs::path& path) {
  const std::optional<uint64_t> count = num_elements(tensor.shape);
  uint64_t num_bytes = 0;
  if (!count || *count > INT64_MAX ||
      __builtin_mul_overflow(*count / type.block_elements, type.block_bytes, &num_bytes))
    throw ContainerError(Fault::kSizeOverflow, path, "{} is {} {}", in_quotes(tensor.name), type.name,
                         tensor.shape);
  const uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type.block_elements != 0)
    throw ContainerError(Fault::kSizeMismatch, path, "{} has rows of {} elements, but {} has blocks of {}",
                         in_quotes(tensor.name), row, type.name, type.block_elements);
  return num_bytes;
}

// `is_ollamas`: the file is from Ollama's converter. In other files, type 4 is a type that ggml has removed.
TensorInfo read_tensor_info(ByteReader& reader, bool is_ollamas) {
  TensorInfo info{};
  GgufTensor& tensor = info.tensor;
  tensor.name = reader.text("the name of a tensor");
  const auto rank = reader.number<uint32_t>("a tensor's rank");
  if (rank > kMaxRank)
    throw ContainerError(Fault::kBadEntry, reader.path(), "{} has {} dimensions; the format allows {}",
                         in_quotes(tensor.name), rank, kMaxRank);
  for (uint32_t i = 0; i < rank; ++i) tensor.shape.push_back(reader.number<uint64_t>("a tensor's shape"));
  std::ranges::reverse(tensor.shape);
  const auto type = reader.number<uint32_t>("a tensor's type");
  const TypeRow* row = find_type(type);
  if (!row || (row->type == GgmlType::kMxfp4Ollama && !is_ollamas)) {
    std::vector<std::string_view> accepted;
    for (const TypeRow& known : kTypes)
      if (known.type != GgmlType::kMxfp4Ollama) accepted.push_back(known.name);
    throw ContainerError(Fault::kUnknownGgmlType, reader.path(), "{} is of type {}; expected one of {}",
                         in_quotes(tensor.name), type_text(type), fmt::join(accepted, ", "));
  }
  tensor.type = row->type;
  info.offset = reader.number<uint64_t>("a tensor's offset");
  info.num_bytes = tensor_bytes(tensor, *row, reader.path());
  return info;
}

std::optional<uint64_t> align_up(uint64_t bytes, uint64_t alignment) {  // rounds up; nullopt on overflow
  uint64_t sum = 0;
  if (__builtin_add_overflow(bytes, alignment - 1, &sum)) return std::nullopt;
  return sum / alignment * alignment;
}

// Sets each tensor's data. A tensor begins after its predecessor and padding; the last one needs no padding.
void place_tensors(std::vector<TensorInfo>& infos, std::span<const std::byte> data, uint64_t alignment,
                   const fs::path& path) {
  uint64_t end = 0;
  for (TensorInfo& info : infos) {
    const std::optional<uint64_t> begin = align_up(end, alignment);
    if (!begin || info.offset != *begin)
      throw ContainerError(
          info.offset < end ? Fault::kOverlap : Fault::kGap, path,
          "{} begins at byte {} of the data, but the previous tensor ends at {} (alignment {})",
          in_quotes(info.tensor.name), info.offset, end, alignment);
    if (*begin > data.size() || info.num_bytes > data.size() - *begin)
      throw ContainerError(Fault::kTruncated, path,
                           "{} needs {} bytes from byte {} of the data, which has only {}",
                           in_quotes(info.tensor.name), info.num_bytes, *begin, data.size());
    info.tensor.data = data.subspan(*begin, info.num_bytes);
    end = *begin + info.num_bytes;
  }
  const std::optional<uint64_t> last = align_up(end, alignment);
  if (last && *last < data.size())
    log::info("{}: ignored {} bytes after the last tensor", path.string(), data.size() - *last);
}

// Returns the number under a key "split.*" of the metadata; nullopt if absent.
std::optional<int64_t> split_number(const Gguf& gguf, std::string_view key, const fs::path& path) {
  const GgufValue* value = gguf.value(key);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = value->integer();
  if (!number || *number < 0)
    throw ContainerError(Fault::kBadSplit, path, "{} is not a non-negative integer", in_quotes(key));
  return number;
}

constexpr int64_t kMaxSplits{99999};  // file names have five digits

std::string split_suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

class Splits {  // opens all files of a split model
 public:
  Splits(Gguf first, fs::path path, int64_t count, FileAccess access)
      : whole_(std::move(first)), path_(std::move(path)), count_(count), access_(access) {
    if (count > kMaxSplits)
      throw ContainerError(Fault::kBadSplit, path_, "\"split.count\" is {}; the maximum is {}", count,
                           kMaxSplits);
    const int64_t number = split_number(whole_, "split.no", path_).value_or(-1);
    const std::string name = path_.filename().string(), suffix = split_suffix(1, count);
    if (number != 0)
      throw ContainerError(Fault::kBadSplit, path_,
                           "it is not the first of {} files; use the file that ends in {}", count, suffix);
    if (!name.ends_with(suffix))
      throw ContainerError(Fault::kBadSplit, path_, "it is the first of {} files, so its name must end in {}",
                           count, suffix);
    prefix_ = name.substr(0, name.size() - suffix.size());
  }

  Gguf open_all() {
    for (int64_t number = 1; number < count_; ++number) add(number);
    const std::optional<int64_t> num_tensors = split_number(whole_, "split.tensors.count", path_);
    if (num_tensors && static_cast<size_t>(*num_tensors) != whole_.tensors.size())
      throw ContainerError(Fault::kBadSplit, path_,
                           "\"split.tensors.count\" is {}, but the files have {} tensors", *num_tensors,
                           whole_.tensors.size());
    whole_.index();
    return std::move(whole_);
  }

 private:
  void add(int64_t number) {
    const fs::path path = path_.parent_path() / (prefix_ + split_suffix(number + 1, count_));
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw ContainerError(Fault::kMissingFile, path_, "{} is not in the same folder",
                           in_quotes(path.filename().string()));
    auto file = std::make_shared<MappedFile>(path, access_);
    Gguf part = parse_gguf(file->bytes(), path);
    if (split_number(part, "split.no", path) != number || split_number(part, "split.count", path) != count_)
      throw ContainerError(Fault::kBadSplit, path, "its metadata does not identify it as file {} of {}",
                           number + 1, count_);
    for (GgufTensor& tensor : part.tensors) {
      if (whole_.find(tensor.name))
        throw ContainerError(Fault::kDuplicateName, path, "{} is also in an earlier file",
                             in_quotes(tensor.name));
      tensor.file_index = whole_.files.size();
    }
    std::ranges::move(part.tensors, std::back_inserter(whole_.tensors));
    whole_.files.push_back(path);
    whole_.index();
    whole_.mapped.push_back(std::move(file));
  }

  Gguf whole_;
  fs::path path_;
  int64_t count_;
  FileAccess access_;
  std::string prefix_;
};

}  // namespace

std::string_view name(GgmlType type) { return row(type).name; }
size_t block_elements(GgmlType type) { return row(type).block_elements; }
size_t block_bytes(GgmlType type) { return row(type).block_bytes; }

std::optional<int64_t> GgufValue::integer() const {
  if (type == GgufType::kBool || !scalar_bytes(type)) return std::nullopt;
  return load_integer(type, bytes.data());
}

std::optional<double> GgufValue::number() const {
  if (type == GgufType::kF32) return load<float>(bytes.data());
  if (type == GgufType::kF64) return load<double>(bytes.data());
  const std::optional<int64_t> whole = integer();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  return type == GgufType::kBool ? std::optional(bytes[0] == std::byte{1}) : std::nullopt;
}

std::optional<std::string_view> GgufValue::text() const {
  if (type != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  const std::optional<size_t> element_bytes = scalar_bytes(element_type);
  if (type != GgufType::kArray || !element_bytes) return std::nullopt;
  std::vector<int64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    const std::optional<int64_t> number = load_integer(element_type, bytes.data() + i * *element_bytes);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (type != GgufType::kArray || element_type != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> texts;
  const char* at = reinterpret_cast<const char*>(bytes.data());
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = load<uint64_t>(reinterpret_cast<const std::byte*>(at));
    at += sizeof(length);
    texts.emplace_back(at, length);
    at += length;
  }
  return texts;
}

const GgufValue* Gguf::value(std::string_view key) const {
  const auto place = metadata.find(key);
  return place == metadata.end() ? nullptr : &place->second;
}

const GgufTensor* Gguf::find(std::string_view tensor) const {
  const auto place = places_.find(tensor);
  return place == places_.end() ? nullptr : &tensors[place->second];
}

void Gguf::index() {
  places_.clear();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_new = places_.try_emplace(tensors[i].name, i).second;
    NIBBLE_CHECK(is_new, "{} is listed twice", tensors[i].name);
  }
}

bool is_gguf(const fs::path& path) {
  std::error_code no_such_file;
  if (!fs::is_regular_file(path, no_such_file)) return false;
  char magic[kMagic.size()]{};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == kMagic;
}

Gguf parse_gguf(std::span<const std::byte> file, const fs::path& path) {
  ByteReader reader(file, path);
  check_version(read_version(reader), path);
  const auto num_tensors = reader.number<uint64_t>("the number of tensors");
  const auto num_values = reader.number<uint64_t>("the number of metadata entries");

  // Reserve no memory for these counts: if they are too large, the loops throw at the end of the file.
  Gguf gguf;
  gguf.files = {path};
  for (uint64_t i = 0; i < num_values; ++i) {
    const std::string_view key = reader.text("a metadata key");
    if (!gguf.metadata.emplace(key, read_value(reader, key)).second)
      throw ContainerError(Fault::kDuplicateName, path, "metadata {}", in_quotes(key));
  }
  const uint64_t alignment = alignment_of(gguf, path);

  const GgufValue* architecture = gguf.value("general.architecture");
  const bool is_ollamas = architecture && architecture->text() == kOllamaArchitecture;
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, bool> names;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    infos.push_back(read_tensor_info(reader, is_ollamas));
    const std::string& name = infos.back().tensor.name;
    if (!names.emplace(name, true).second)
      throw ContainerError(Fault::kDuplicateName, path, "tensor {}", in_quotes(name));
  }
  const std::optional<uint64_t> data_begin = align_up(reader.at(), alignment);
  const uint64_t data_at = std::min<uint64_t>(data_begin.value_or(file.size()), file.size());
  place_tensors(infos, file.subspan(data_at), alignment, path);
  for (TensorInfo& info : infos) gguf.tensors.push_back(std::move(info.tensor));
  gguf.index();
  return gguf;
}

Gguf open_gguf(const fs::path& path, FileAccess access) {
  auto file = std::make_shared<MappedFile>(path, access);
  Gguf gguf = parse_gguf(file->bytes(), path);
  gguf.mapped = {file};
  const int64_t num_files = split_number(gguf, "split.count", path).value_or(1);
  if (num_files <= 1) return gguf;
  return Splits(std::move(gguf), path, num_files, access).open_all();
}

}  // namespace nibble
