#include "formats/container_error.h"

#include <iterator>

#include "core/errors/check.h"

namespace nibble {
namespace {

constexpr std::string_view kFetchAgain{"Download or copy the file again"};
constexpr std::string_view kConvertAgain{
    "The file is damaged or was written incorrectly: download it again, or convert it with another program"};
constexpr std::string_view kFetchIndexAgain{
    "The index belongs to other files or is damaged: download all files again"};

struct FaultRow {
  ContainerFault fault;
  std::string_view name;
  std::string_view remedy;
};
constexpr FaultRow kFaults[] = {
    // One row per ContainerFault, in the order of the enumeration.
    {ContainerFault::kNotTensors, "not a tensor file", "Give a safetensors file or a checkpoint folder"},
    {ContainerFault::kGguf, "a GGUF file is not part of a checkpoint folder",
     "It is a complete model: give its path"},
    {ContainerFault::kEmptyFolder, "no checkpoint files",
     "Give the folder with the model's *.safetensors files"},
    {ContainerFault::kMissingFile, "missing shard", "Download the missing file into the same folder"},
    {ContainerFault::kTruncated, "truncated", kFetchAgain},
    {ContainerFault::kHeaderTooLarge, "header too large", kConvertAgain},
    {ContainerFault::kHeaderNotObject, "header is not a JSON object", kConvertAgain},
    {ContainerFault::kInvalidUtf8, "invalid UTF-8", kConvertAgain},
    {ContainerFault::kInvalidJson, "invalid JSON", kConvertAgain},
    {ContainerFault::kTooDeep, "JSON nested too deep", kConvertAgain},
    {ContainerFault::kDuplicateName, "duplicate name", kConvertAgain},
    {ContainerFault::kBadMetadata, "bad metadata", kConvertAgain},
    {ContainerFault::kBadEntry, "bad header entry", kConvertAgain},
    {ContainerFault::kUnknownDType, "unknown dtype",
     "Convert the checkpoint to a type that safetensors defines"},
    {ContainerFault::kBadNumber, "bad number", kConvertAgain},
    {ContainerFault::kSizeOverflow, "size overflows", kConvertAgain},
    {ContainerFault::kPartialByte, "size is not whole bytes", kConvertAgain},
    {ContainerFault::kSizeMismatch, "shape and data disagree", kConvertAgain},
    {ContainerFault::kReversedOffsets, "reversed offsets", kConvertAgain},
    {ContainerFault::kOverlap, "overlapping tensors", kConvertAgain},
    {ContainerFault::kGap, "gap between tensors", kConvertAgain},
    {ContainerFault::kTrailingBytes, "trailing bytes", kConvertAgain},
    {ContainerFault::kBadIndex, "bad index", kFetchIndexAgain},
    {ContainerFault::kBadFileName, "index leaves the folder", kFetchIndexAgain},
    {ContainerFault::kMissingTensor, "missing tensor", kFetchIndexAgain},
    {ContainerFault::kBadVersion, "unsupported GGUF version",
     "Convert the model again with a current program"},
    {ContainerFault::kUnknownGgmlType, "unsupported tensor type", "Use a file with another quantisation"},
    {ContainerFault::kBadSplit, "bad split",
     "Download all files of the model into one folder, under their original names"},
};
static_assert([] {
  for (size_t i = 0; i < std::size(kFaults); ++i)
    if (kFaults[i].fault != static_cast<ContainerFault>(i)) return false;
  return std::size(kFaults) == static_cast<size_t>(ContainerFault::kBadSplit) + 1;
}());

const FaultRow& row_of(ContainerFault fault) {
  NIBBLE_CHECK(static_cast<size_t>(fault) < std::size(kFaults), "fault {}", static_cast<int>(fault));
  return kFaults[static_cast<size_t>(fault)];
}

}  // namespace

std::string_view name(ContainerFault fault) { return row_of(fault).name; }

std::string_view remedy(ContainerFault fault) { return row_of(fault).remedy; }

// Escapes each byte separately: fmt's {:?} aborts the program on a truncated UTF-8 character (fmt 9.1).
std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxShown{100};
  std::string shown = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    if (c == '"' || c == '\\') {
      shown += {'\\', c};
    } else if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return shown + (text.size() <= kMaxShown ? "\"" : "\"...");
}

}  // namespace nibble
