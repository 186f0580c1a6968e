// Reads any bytes as an index. It is refused with one line, or its tensors lie in files with plain names.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/container_error.h"
#include "formats/safetensors_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  try {
    const SafetensorsIndex index =
        parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const std::string& file : index.files)
      if (file.empty() || file == ".." || file.find('/') != std::string::npos) std::abort();
    for (const auto& [tensor, file_index] : index.file_index)
      if (file_index >= index.files.size()) std::abort();
    if (index.files.empty() || index.files.size() > index.file_index.size()) std::abort();
  } catch (const ContainerError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
