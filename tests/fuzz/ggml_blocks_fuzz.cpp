// Decodes any bytes as blocks of each ggml type. Whatever its codes and scales are, a block must give all
// values of its type, and decoding must read no other bytes: the copy of the input has exactly the size of
// the blocks, so that a sanitizer finds reads past its end.
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/errors/check.h"
#include "formats/ggml_blocks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble;
  constexpr GgmlType kTypes[]{GgmlType::kF32,    GgmlType::kF16,         GgmlType::kBf16,  GgmlType::kQ8_0,
                              GgmlType::kQ4_0,   GgmlType::kQ4_1,        GgmlType::kQ5_0,  GgmlType::kQ5_1,
                              GgmlType::kQ2K,    GgmlType::kQ3K,         GgmlType::kQ4K,   GgmlType::kQ5K,
                              GgmlType::kQ6K,    GgmlType::kIq2Xxs,      GgmlType::kIq2Xs, GgmlType::kIq2S,
                              GgmlType::kIq3Xxs, GgmlType::kIq3S,        GgmlType::kIq4Nl, GgmlType::kIq4Xs,
                              GgmlType::kMxfp4,  GgmlType::kMxfp4Ollama, GgmlType::kNvfp4};
  if (size < 2) return 0;
  const GgmlType type = kTypes[data[0] % std::size(kTypes)];
  const size_t count = (size - 1) / block_bytes(type);
  const auto* first = reinterpret_cast<const std::byte*>(data) + 1;
  const std::vector<std::byte> blocks(first, first + count * block_bytes(type));
  // Different values before decoding show elements that were not written.
  std::vector<float> values(count * block_elements(type), 1234.5f), again(values.size(), -1234.5f);
  dequantise(type, blocks, values);
  dequantise(type, blocks, again);
  NIBBLE_CHECK(values.empty() || std::memcmp(values.data(), again.data(), values.size() * sizeof(float)) == 0,
               "{}", name(type));
  return 0;
}
