// What can be wrong with a tensor file or a folder of them, one name for each. The line that people read is
//   PATH: NAME: what is wrong here. What to do
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"

namespace nibble {

enum class ContainerFault {
  // Which file it is.
  kNotTensors,
  kGguf,
  kEmptyFolder,
  kMissingFile,
  // Bytes and JSON of a header or an index.
  kTruncated,
  kHeaderTooLarge,
  kHeaderNotObject,
  kInvalidUtf8,
  kInvalidJson,
  kTooDeep,
  kDuplicateName,
  // What a safetensors header says.
  kBadMetadata,
  kBadEntry,
  kUnknownDType,
  kBadNumber,
  kSizeOverflow,
  kPartialByte,
  kSizeMismatch,
  kReversedOffsets,
  kOverlap,
  kGap,
  kTrailingBytes,
  // What the index of a sharded checkpoint says.
  kBadIndex,
  kBadFileName,
  kMissingTensor,
  // What a GGUF file says.
  kBadVersion,
  kUnknownGgmlType,
  kBadSplit,
};

std::string_view name(ContainerFault fault);    // "overlapping tensors"
std::string_view remedy(ContainerFault fault);  // what to do about it

class ContainerError : public InputError {
 public:
  template <typename... Args>
  ContainerError(ContainerFault which, const std::filesystem::path& path, fmt::format_string<Args...> detail,
                 Args&&... args)
      : InputError("{}: {}: {}. {}", path.string(), name(which),
                   fmt::format(detail, std::forward<Args>(args)...), remedy(which)),
        fault(which) {}

  ContainerFault fault;
};

// A name out of a file as it may stand in a message: in quotes, in printable ASCII on one line, and not endless.
std::string in_quotes(std::string_view text);

}  // namespace nibble
