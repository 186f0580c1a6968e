// Any bytes are a safetensors file whose tensors tile its data, or are refused with one line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/container_error.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const std::byte* end = nullptr;
    unsigned sum = 0;
    for (const Tensor& tensor : parse_safetensors(file, "fuzz")) {
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      if (end && tensor.data.data() != end) std::abort();
      end = tensor.data.data() + tensor.data.size();
      if (*num_elements(tensor.shape) * static_cast<uint64_t>(num_bits(tensor.dtype)) !=
          tensor.data.size() * 8)
        std::abort();
    }
    if (end && end != file.data() + file.size()) std::abort();
    [[maybe_unused]] volatile unsigned keep = sum;  // so that every byte is read
  } catch (const ContainerError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
