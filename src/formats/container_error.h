// Faults of tensor files and folders of them. A message is one line: "PATH: NAME: what is wrong. What to do".
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"

namespace nibble {

enum class ContainerFault {
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
  // Content of a safetensors header.
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
  // Index of a sharded checkpoint.
  kBadIndex,
  kBadFileName,
  kMissingTensor,
  // GGUF only.
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

// Quotes text from a file: printable ASCII on one line, other bytes escaped, cut after 100 bytes.
std::string in_quotes(std::string_view text);

}  // namespace nibble
