// Reads GGUF version 3, little-endian: metadata, a list of tensors, then the data, each tensor padded.
//   "GGUF"  u32 version  u64 tensors  u64 entries
//   entry:  key  u32 type  value
//   tensor: name  u32 rank  u64 extents[rank], innermost first  u32 type  u64 offset in the data
//   string: u64 length, bytes           array:  u32 element type, u64 count, elements
// A model may be split into files NAME-00001-of-00003.gguf, ..., with the metadata in the first file. All
// checks of llama.cpp are made before any data is used. Sources: ggml's description and llama.cpp's reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/files/mapped_file.h"
#include "core/tensors/shape.h"

namespace nibble {

constexpr uint32_t kGgufVersion{3};
inline constexpr std::string_view kOllamaArchitecture{
    "gptoss"};                        // general.architecture of Ollama's converter
constexpr size_t kGgufAlignment{32};  // alignment of tensor data in bytes, unless the file states one

// Type of a tensor's elements, numbered as in the file. formats/ggml_blocks.h describes the blocks.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kMxfp4Ollama = 4,  // used only by Ollama's converter: MXFP4 with codes in the order of formats/mxfp4.h
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kIq2Xxs = 16,
  kIq2Xs = 17,
  kIq3Xxs = 18,
  kIq4Nl = 20,
  kIq3S = 21,
  kIq2S = 22,
  kIq4Xs = 23,
  kBf16 = 30,
  kMxfp4 = 39,
  kNvfp4 = 40,
};
std::string_view name(GgmlType type);  // "Q8_0", for example
constexpr bool is_mxfp4(GgmlType type) { return type == GgmlType::kMxfp4 || type == GgmlType::kMxfp4Ollama; }
size_t block_elements(GgmlType type);  // number of consecutive elements of a row in one block
size_t block_bytes(GgmlType type);

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

struct GgufValue {
  GgufType type{};
  GgufType element_type{};           // arrays only
  uint64_t count{0};                 // number of elements; arrays only
  std::span<const std::byte> bytes;  // a string without its length, or the elements of an array

  // The following return nullopt if the value has another type, or is an integer that does not fit int64_t.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // also converts an integer
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;
  std::optional<std::vector<int64_t>> integers() const;  // elements of an array; booleans as 0 and 1
  std::optional<std::vector<std::string_view>> texts() const;
};

struct GgufTensor {
  std::string name;
  GgmlType type{};
  Shape shape;                      // outermost extent first, as in all of nibble (not in the file)
  std::span<const std::byte> data;  // whole blocks of `type`
  size_t file_index{0};             // index into Gguf::files
};

struct Gguf {
  Gguf() = default;
  Gguf(Gguf&&) = default;  // can't be copied: places_ of a copy would view the names of the original
  Gguf& operator=(Gguf&&) = default;

  std::map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // all tensors, in the order of `files`
  std::vector<std::filesystem::path> files;
  MappedFiles mapped;  // mappings of `files`, which keep all views valid

  const GgufValue* value(std::string_view key) const;  // null if absent
  const GgufTensor* find(std::string_view tensor) const;
  void index();  // must be called after `tensors` is filled and before find()

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

bool is_gguf(const std::filesystem::path& path);  // true for a file that begins with "GGUF"

// Parses a file into views of it. Throws ContainerError for any fault; `path` is for messages.
Gguf parse_gguf(std::span<const std::byte> file, const std::filesystem::path& path);

// Maps (or reads) and parses the file, and all other files if it is the first of a split model.
Gguf open_gguf(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);

}  // namespace nibble
