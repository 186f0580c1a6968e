#include "backend/cuda/verify/kernel_input.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/kernel_table.h"
#include "backend/cuda/verify/values.h"

namespace nibble::cuda::verify {

std::vector<uint16_t> bits_of(const Activations& x) {
  std::vector<uint16_t> bits(x.size());
  std::ranges::transform(x.values, bits.begin(), [](float value) { return to_bf16(value).bits; });
  return bits;
}

DeviceArray<uint16_t> given_norm(const Subject& subject, const Activations& normed) {
  if (!subject.row.pass.takes_norm)
    return DeviceArray<uint16_t>(normed.size());  // poison: the kernel must not read this array
  const std::vector<uint16_t> bits = bits_of(normed);
  return DeviceArray<uint16_t>(subject.row.pass.takes_image ? to_image(bits, normed.cols) : bits);
}

cuda::Activations given(const Subject& subject, const DeviceArray<uint16_t>& activations, int num_rows) {
  return rows_or_image(bf16(activations), subject.row.pass.takes_image ? whole_eights(num_rows) : 0);
}

KernelInput::KernelInput(const Subject& subject, const Activations& normed)
    : rows_(given_norm(subject, normed)), view_(given(subject, rows_, normed.rows)), multiplied_(normed) {
  const auto format = block_format_of(subject.row);
  if (!format) return;
  const HostBlocks blocks = quantise_rows(*format, normed.rows, normed.cols, bits_of(normed));
  multiplied_ = activations_of(blocks, subject.gpu.target.has_block_products);
  view_ = cuda::Activations(blocks_.emplace(blocks).view());
}

DeviceArray<float> room_for_blocks(const HostBlocks& blocks) {
  return DeviceArray<float>(blocks.codes.size() / sizeof(float) + blocks.scales.size());
}

void compare_scratch(Comparison& comparison, const std::vector<float>& scratch, const HostBlocks& expected) {
  HostBlocks actual = expected;
  std::memcpy(actual.codes.data(), scratch.data(), actual.codes.size());
  std::memcpy(actual.scales.data(), scratch.data() + actual.codes.size() / sizeof(float),
              actual.scales.size() * sizeof actual.scales[0]);
  compare_bytes(comparison, "blocks", actual, expected);
}

}  // namespace nibble::cuda::verify
