// Faults of tensor files and checkpoint folders. Messages have one line: "PATH: FAULT: DETAIL. WHAT TO DO".
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/errors/error.h"

namespace nibble {

enum class ContainerFault {
  kNotTensors,
  kGguf,
  kEmptyFolder,
  kMissingFile,
  // Faults in the bytes or the JSON of a header or an index:
  kTruncated,
  kHeaderTooLarge,
  kHeaderNotObject,
  kInvalidUtf8,
  kInvalidJson,
  kTooDeep,
  kDuplicateName,
  // Faults in the content of a safetensors header:
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
  // Faults in the index of a sharded checkpoint:
  kBadIndex,
  kBadFileName,
  kMissingTensor,
  // Faults of GGUF files only:
  kBadVersion,
  kUnknownGgmlType,
  kBadSplit,
};

std::string_view name(ContainerFault fault);  // "overlapping tensors", for example
std::string_view remedy(ContainerFault fault);

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

// Quotes text from a file: printable ASCII on one line, other bytes escaped, at most 100 bytes of it.
std::string in_quotes(std::string_view text);

}  // namespace nibble
