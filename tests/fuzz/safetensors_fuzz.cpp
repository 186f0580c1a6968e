// Reads any bytes as a safetensors file. Either the file is refused with one line, or its tensors cover its
// data without gaps or overlaps.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "formats/container_error.h"
#include "formats/safetensors.h"

namespace {

using namespace nibble;

void parse(std::span<const std::byte> file) {
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
    // The volatile store keeps the compiler from removing the reads of every byte.
    [[maybe_unused]] volatile unsigned keep = sum;
  } catch (const ContainerError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  parse(file);
  // A mutation rarely leaves the header length correct. So the input is tried again with a header that ends
  // at the last brace, and the rest as data.
  uint64_t length = 0;
  if (size < sizeof(length)) return 0;
  const auto last_brace = std::find(file.rbegin(), file.rend(), std::byte{'}'});
  const auto header_end = static_cast<uint64_t>(file.rend() - last_brace);
  if (header_end < sizeof(length)) return 0;
  length = header_end - sizeof(length);
  std::vector<std::byte> mended(file.begin(), file.end());
  std::memcpy(mended.data(), &length, sizeof(length));
  parse(mended);
  return 0;
}
