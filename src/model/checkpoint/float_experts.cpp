#include "model/checkpoint/float_experts.h"

#include <string_view>

#include "core/errors/error.h"
#include "formats/mxfp4.h"
#include "model/checkpoint/expert_modules.h"

namespace nibble {
namespace {

constexpr std::string_view kCodes{"_blocks"}, kScales{"_scales"}, kDown{"down_proj"}, kUp{"gate_up_proj"};

std::string without(std::string_view name, std::string_view ending) {
  if (name.ends_with(ending)) name.remove_suffix(ending.size());
  return std::string(name);
}

struct Orders {
  Shape transposed, plain;
};
Orders orders_of(uint64_t experts, uint64_t rows, uint64_t cols) {
  return {{experts, cols, rows}, {experts, rows, cols}};
}

// Whether a square matrix is stored transposed, which its shape does not show. It has the same order as the
// layer's other matrix. If that matrix is absent, the order is transposed, as transformers writes it.
bool is_other_transposed(const Container& container, const std::string& name, const Orders& orders) {
  const bool is_down = name.ends_with(kDown);
  std::string other = name.substr(0, name.size() - (is_down ? kDown : kUp).size());
  other += is_down ? kUp : kDown;
  const Tensor* tensor = container.find(other);
  const uint64_t experts = orders.plain[0], rows = orders.plain[1], cols = orders.plain[2];
  const Orders others = is_down ? orders_of(experts, 2 * cols, rows) : orders_of(experts, cols, rows / 2);
  return !tensor || tensor->shape != others.plain;
}

bool is_float(const Tensor& tensor) {
  return tensor.dtype == DType::kBf16 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kF32;
}

struct ExpertShape {
  uint64_t experts, rows, cols;
  bool has_all{false};  // whether one module has all experts
};

// Describes one matrix per expert as an ExpertTensor. MXFP4 becomes codes and scales as in OpenAI's
// checkpoints.
ExpertTensor expert_tensor(std::vector<ForeignMatrix>&& matrices) {
  ExpertTensor tensor;
  if (matrices[0].layout != ForeignLayout::kMxfp4) {
    tensor.foreign = std::make_shared<const std::vector<ForeignMatrix>>(std::move(matrices));
    return tensor;
  }
  tensor.type = DType::kU8;
  for (const ForeignMatrix& matrix : matrices) {
    tensor.experts.push_back(matrix.codes);
    tensor.scales.push_back(matrix.scales);
  }
  return tensor;
}

// Returns the tensor of a module's weights. They must be BF16, F16 or F32 and, if `dtype` is set, of that
// dtype: the first module's.
const Tensor& float_weight(const Container& container, const std::string& module, const Shape& shape,
                           std::optional<DType> dtype) {
  const std::string name = module + ".weight";
  const Tensor* tensor = container.find(name);
  if (!tensor)
    throw InputError("{}: tensor '{}' is missing, but other experts of the layer are there",
                     container.files[0].string(), name);
  if (!is_float(*tensor) || (dtype && tensor->dtype != *dtype) || tensor->shape != shape)
    throw InputError("{}: tensor '{}' is {} {}; expected BF16, F16 or F32 {}, as for all experts",
                     container.files[tensor->file_index].string(), name, tensor->dtype, tensor->shape, shape);
  return *tensor;
}

// Returns experts in modules that another program quantised; nullopt if it did not quantise the first module.
// MXFP4 becomes codes and scales (U8).
std::optional<ExpertTensor> foreign_experts(const Container& container,
                                            const std::vector<std::string>& modules, const ExpertShape& shape,
                                            const ForeignRules& rules, FloatExperts& found) {
  std::vector<ForeignMatrix> all;
  for (const std::string& module : modules) {
    const uint64_t in_module = shape.has_all ? shape.experts : 0;
    const auto matrices = find_foreign(container, {module, shape.rows, shape.cols, in_module}, rules);
    if (!matrices && all.empty()) return std::nullopt;
    if (!matrices || (!all.empty() && matrices->matrices[0].layout != all[0].layout))
      throw InputError("{}: '{}' is not {}, as the other experts of the layer are",
                       container.files[0].string(), module, name(all[0]));
    all.insert(all.end(), matrices->matrices.begin(), matrices->matrices.end());
    found.tensors.insert(found.tensors.end(), matrices->tensors.begin(), matrices->tensors.end());
  }
  return expert_tensor(std::move(all));
}

// Returns experts that are separate modules, either quantised by another program or in BF16, F16 or F32.
ExpertTensor tensor_of_modules(const Container& container, const std::vector<std::string>& modules,
                               const ExpertShape& shape, const ForeignRules& rules, FloatExperts& found) {
  if (auto foreign = foreign_experts(container, modules, shape, rules, found)) return *foreign;
  ExpertTensor tensor;
  const Shape own =
      shape.has_all ? Shape{shape.experts, shape.rows, shape.cols} : Shape{shape.rows, shape.cols};
  std::optional<DType> dtype;
  for (const std::string& module : modules) {
    const Tensor& weight = float_weight(container, module, own, dtype);
    tensor.type = weight.dtype;
    dtype = weight.dtype;
    const uint64_t count = shape.has_all ? shape.experts : 1;
    for (uint64_t e = 0; e < count; ++e)
      tensor.experts.push_back(weight.data.data() + e * (weight.data.size() / count));
    found.tensors.push_back(&weight);
  }
  return tensor;
}

FloatExperts experts_of_modules(const Container& container, const ExpertModules& modules,
                                const ExpertShape& shape, const ForeignRules& rules) {
  FloatExperts found;
  ExpertShape part = shape;
  part.has_all = modules.has_all;
  if (!modules.odd_rows.empty()) part.rows /= 2;
  found.experts.rows = tensor_of_modules(container, modules.rows, part, rules, found);
  if (!modules.odd_rows.empty())
    found.experts.odd_rows = tensor_of_modules(container, modules.odd_rows, part, rules, found);
  return found;
}

// Returns experts that ModelOpt quantised to NVFP4, under transformers' names; nullopt if there are none.
std::optional<FloatExperts> experts_of_modelopt(const Container& container, const std::string& name,
                                                const ExpertShape& shape) {
  auto matrices = find_foreign(container,
                               {.name = name,
                                .rows = shape.rows,
                                .cols = shape.cols,
                                .num_experts = shape.experts,
                                .is_parameter = true},
                               {});
  if (!matrices) return std::nullopt;
  FloatExperts found{.experts = {}, .tensors = std::move(matrices->tensors)};
  found.experts.rows = expert_tensor(std::move(matrices->matrices));
  return found;
}

}  // namespace

std::optional<FloatExperts> find_float_experts(const Container& container, const TensorSpec& spec,
                                               const std::string& stored_name, const ForeignRules& rules) {
  const std::string name = without(without(stored_name, kCodes), kScales);
  if (name == stored_name) return std::nullopt;
  const Tensor* tensor = container.find(name);
  const uint64_t experts = spec.shape[0], rows = spec.shape[1], cols = spec.shape[2] * kMxfp4BlockSize;
  const ExpertShape shape{experts, rows, cols};
  if (!tensor) {
    const auto modules =
        find_expert_modules(container, name, experts, {".weight", ".qweight", ".weight_packed"});
    if (!modules) return std::nullopt;
    return experts_of_modules(container, *modules, shape, rules);
  }
  if (auto found = experts_of_modelopt(container, name, shape)) return found;
  const Orders orders = orders_of(experts, rows, cols);
  const auto& [transposed, plain] = orders;
  const bool is_transposed =
      transposed == plain ? is_other_transposed(container, name, orders) : tensor->shape == transposed;
  if (!is_float(*tensor) || (tensor->shape != transposed && tensor->shape != plain))
    throw InputError(
        "{}: tensor '{}' is {} {}; experts are '{}_blocks' and '{}_scales' in MXFP4, or BF16, "
        "F16 or F32 {}, or {} if not transposed",
        container.files[tensor->file_index].string(), name, tensor->dtype, tensor->shape, name, name,
        transposed, plain);
  const size_t bytes = tensor->data.size() / experts;
  return FloatExperts{
      .experts = {.rows = {.type = tensor->dtype,
                           .experts = consecutive(tensor->data.data(), bytes, static_cast<int>(experts)),
                           .is_transposed = is_transposed}},
      .tensors = {tensor}};
}

}  // namespace nibble
