// Makes tensors of any type and shape from the input, with the names that other programs give to the parts of
// a quantised layer. They are refused with one line, or every value of the layer can be read.
//   byte 0: the value of every byte of every tensor
//   byte 1: bit 0: experts in one module; bit 1: experts with the tensor names of transformers; bit 2: GPTQ's
//     zero points are stored less one; bit 3: they are stored as they are
//   then for each tensor: its part, its type, its rank and its extents, a byte each
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "model/checkpoint/foreign_layers.h"

namespace {

using namespace nibble;

constexpr std::string_view kParts[]{"weight",
                                    "weight_scale",
                                    "weight_scale_2",
                                    "weight_packed",
                                    "weight_global_scale",
                                    "weight_zero_point",
                                    "scales",
                                    "biases",
                                    "qweight",
                                    "qzeros",
                                    "g_idx",
                                    "weight_shape",
                                    "input_scale",
                                    "weight_g_idx",
                                    "input_global_scale"};
constexpr uint64_t kRows{16}, kCols{64}, kExperts{2};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  bool is_at_end() const { return data_ == end_; }
  uint8_t next() { return is_at_end() ? uint8_t{0} : *data_++; }

 private:
  const uint8_t *data_, *end_;
};

void read_all(const FoundMatrices& found) {
  std::vector<float> values(kCols);
  size_t bytes = 0, held = 0;
  for (const ForeignMatrix& matrix : found.matrices) {
    NIBBLE_CHECK(matrix.rows == kRows && matrix.cols == kCols, "{} rows of {}", matrix.rows, matrix.cols);
    for (size_t row = 0; row < kRows; ++row) read_rows(matrix, row, values);
    bytes += stored_bytes(matrix);
  }
  for (const Tensor* tensor : found.tensors) held += tensor->data.size();
  NIBBLE_CHECK(bytes <= held, "{} bytes of {}", bytes, held);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t fill = input.next(), flags = input.next();
  const ForeignModule module{.name = "layer",
                             .rows = kRows,
                             .cols = kCols,
                             .num_experts = flags & 3 ? kExperts : 0,
                             .is_parameter = (flags & 2) != 0};
  ForeignRules rules;
  if (flags & 12) rules.gptq_zero_offset = flags & 4 ? 1 : 0;
  Container container;
  container.files = {"fuzz"};
  std::vector<std::vector<std::byte>> storage;  // of exact size: a sanitizer finds reads past the end
  while (!input.is_at_end() && container.tensors.size() < 16) {
    const std::string_view part = kParts[input.next() % std::size(kParts)];
    Tensor tensor;
    tensor.name = module.is_parameter && part == "weight"
                      ? module.name
                      : fmt::format("{}{}{}", module.name, module.is_parameter ? "_" : ".", part);
    tensor.dtype = static_cast<DType>(input.next() % (static_cast<int>(DType::kU64) + 1));
    for (int rank = input.next() % 4; rank > 0; --rank) tensor.shape.push_back(input.next());
    const uint64_t bits = *num_elements(tensor.shape) * static_cast<uint64_t>(num_bits(tensor.dtype));
    if (bits % 8 != 0 || bits > (1 << 20)) continue;
    const auto is_same = [&](const Tensor& other) { return other.name == tensor.name; };
    if (std::ranges::any_of(container.tensors, is_same)) continue;  // a file's parser refuses duplicate names
    tensor.data = storage.emplace_back(bits / 8, std::byte{fill});
    container.tensors.push_back(std::move(tensor));
  }
  container.index();
  try {
    if (const auto found = find_foreign(container, module, rules)) read_all(*found);
  } catch (const InputError& error) {
    NIBBLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos, "{}", error.what());
  }
  return 0;
}
