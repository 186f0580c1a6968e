// Reads any bytes as an index of safetensors files, and as a manifest of Ollama. Either it is refused with
// one line, or it names files with plain names.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/container_error.h"
#include "formats/ollama_manifest.h"
#include "formats/safetensors_index.h"

namespace {

void read_manifest(std::string_view text) {
  using namespace nibble;
  try {
    const std::string blob = ollama_model_blob(text, "fuzz");
    if (!blob.starts_with("sha256-") || blob.find('/') != std::string::npos) std::abort();
  } catch (const ContainerError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  read_manifest({reinterpret_cast<const char*>(data), size});
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
