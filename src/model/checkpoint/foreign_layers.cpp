#include "model/checkpoint/foreign_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/f16.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

using Types = std::initializer_list<DType>;

constexpr uint64_t kNvfp4Group{16}, kPerWord{8};

enum class Sign { kAny, kPositive };

float element_of(const Tensor& tensor, uint64_t index) {
  const std::byte* from = tensor.data.data() + index * static_cast<uint64_t>(num_bits(tensor.dtype)) / 8;
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (tensor.dtype) {
    case DType::kF8E4M3:
      return to_float(as(E4m3{}));
    case DType::kF16:
      return to_float(as(F16{}));
    case DType::kBf16:
      return to_float(as(Bf16{}));
    default:
      return as(0.0f);
  }
}

// Requires all elements of a tensor of floats to be finite and, for Sign::kPositive, above zero.
void check_numbers(const Tensor& tensor, const std::string& file, Sign sign) {
  for (uint64_t i = 0; i < *num_elements(tensor.shape); ++i) {
    const float value = element_of(tensor, i);
    if (!std::isfinite(value) || (sign == Sign::kPositive && value <= 0))
      throw InputError("{}: value {} of tensor '{}' is {}; expected a {} number", file, i, tensor.name, value,
                       sign == Sign::kPositive ? "positive" : "finite");
  }
}

// The tensors of one module. Remembers those that were used.
class ModuleReader {
 public:
  ModuleReader(const Container& container, const ForeignModule& module)
      : container_(container), module_(module) {}

  const ForeignModule& module() const { return module_; }
  uint64_t rows() const { return module_.rows; }
  uint64_t cols() const { return module_.cols; }

  const Tensor* find(std::string_view part) const { return container_.find(name_of(part)); }

  // Returns the tensor of this name. Requires one of these types and, for each matrix, the shape of_matrix.
  const Tensor& need(std::string_view part, const Types& types, const Shape& of_matrix) {
    const Tensor& tensor = need(part);
    Shape shape = of_matrix;
    if (module_.num_experts > 0) shape.insert(shape.begin(), module_.num_experts);
    if (std::ranges::find(types, tensor.dtype) == types.end() || tensor.shape != shape)
      refuse(tensor, fmt::format("expected {} {}", fmt::join(types, " or "), shape));
    return tensor;
  }
  // As need(), but also requires all elements to be finite numbers.
  const Tensor& need_finite(std::string_view part, const Types& types, const Shape& of_matrix) {
    const Tensor& tensor = need(part, types, of_matrix);
    check_numbers(tensor, file_of(tensor), Sign::kAny);
    return tensor;
  }
  const Tensor& need(std::string_view part) {
    const Tensor* tensor = find(part);
    if (!tensor)
      throw InputError("{}: tensor '{}' is missing, which belongs to the other tensors of this layer",
                       container_.files[0].string(), name_of(part));
    found_.tensors.push_back(tensor);
    return *tensor;
  }
  void use(std::string_view part) {  // marks a tensor that has no effect as used, if it is present
    if (const Tensor* tensor = find(part)) found_.tensors.push_back(tensor);
  }

  // Reads positive F32 numbers: one for all experts' matrices, or one for each.
  std::vector<float> factors(std::string_view part) {
    const Tensor& tensor = need(part);
    const uint64_t count = std::max<uint64_t>(module_.num_experts, 1);
    const bool is_one = tensor.shape == Shape{} || tensor.shape == Shape{1};
    if (tensor.dtype != DType::kF32 || (!is_one && tensor.shape != Shape{count}))
      refuse(tensor, fmt::format("expected F32 [1]{}", count > 1 ? fmt::format(" or [{}]", count) : ""));
    check_numbers(tensor, file_of(tensor), Sign::kPositive);
    std::vector<float> values(is_one ? 1 : count);
    std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
    values.resize(count, values[0]);
    return values;
  }

  // Adds one matrix, or one for each expert. `all` has the fields that are equal in all matrices; each tensor
  // holds the parts of the matrices one after another.
  FoundMatrices matrices(const ForeignMatrix& all, const Tensor& codes, const Tensor* scales,
                         const Tensor* zeros, const std::vector<float>& factors = {}) {
    const uint64_t count = std::max<uint64_t>(module_.num_experts, 1);
    const auto part = [count](const Tensor* tensor, uint64_t e) -> const std::byte* {
      return tensor ? tensor->data.data() + e * (tensor->data.size() / count) : nullptr;
    };
    for (uint64_t e = 0; e < count; ++e) {
      ForeignMatrix matrix = all;
      matrix.rows = rows();
      matrix.cols = cols();
      matrix.codes = part(&codes, e);
      matrix.scales = part(scales, e);
      matrix.zeros = part(zeros, e);
      if (!factors.empty()) matrix.factor = factors[e];
      found_.matrices.push_back(matrix);
    }
    return std::move(found_);
  }

  [[noreturn]] void refuse(const Tensor& tensor, const std::string& why) const {
    throw InputError("{}: tensor '{}' is {} {}; {}", file_of(tensor), tensor.name, tensor.dtype, tensor.shape,
                     why);
  }
  std::string file_of(const Tensor& tensor) const { return container_.files[tensor.file_index].string(); }

 private:
  std::string name_of(std::string_view part) const {
    if (!module_.is_parameter) return fmt::format("{}.{}", module_.name, part);
    return part == "weight" ? module_.name : fmt::format("{}_{}", module_.name, part);
  }

  const Container& container_;
  const ForeignModule& module_;
  FoundMatrices found_;
};

constexpr Types kFloatTypes{DType::kF16, DType::kBf16, DType::kF32};

// Requires the columns of a matrix to be whole groups.
void check_columns(const ModuleReader& reader, const Tensor& tensor, uint64_t group, std::string_view what) {
  if (group == 0 || reader.cols() % group != 0)
    reader.refuse(tensor, fmt::format("{} columns are not whole {} of {}", reader.cols(), what, group));
}

FoundMatrices read_nvfp4(ModuleReader& reader, std::string_view codes_name, std::string_view factor_name) {
  const bool is_columns = reader.module().is_parameter, is_inverse = factor_name == "weight_global_scale";
  const uint64_t rows = reader.rows(), cols = reader.cols();
  check_columns(reader, *reader.find(codes_name), kNvfp4Group, "groups");
  const auto shape = [&](uint64_t width) { return is_columns ? Shape{width, rows} : Shape{rows, width}; };
  const Tensor& codes = reader.need(codes_name, {DType::kU8}, shape(cols / 2));
  const Tensor& scales = reader.need_finite("weight_scale", {DType::kF8E4M3}, shape(cols / kNvfp4Group));
  std::vector<float> factors = reader.factors(factor_name);
  if (is_inverse)
    for (float& factor : factors) {
      factor = 1 / factor;
      if (!std::isfinite(factor))
        reader.refuse(*reader.find(factor_name), "holds a number whose reciprocal is infinite");
    }
  reader.use("input_scale");
  reader.use("input_global_scale");
  return reader.matrices({.layout = is_columns ? ForeignLayout::kNvfp4Columns : ForeignLayout::kNvfp4}, codes,
                         &scales, nullptr, factors);
}

// Returns the number of groups of columns: the extent of this dimension of one matrix's scales.
uint64_t count_groups(const ModuleReader& reader, const Tensor& tensor, size_t dimension) {
  const size_t of_experts = reader.module().num_experts > 0 ? 1 : 0;
  const uint64_t groups = tensor.shape.size() == 2 + of_experts ? tensor.shape[dimension + of_experts] : 0;
  if (groups == 0 || reader.cols() % groups != 0)
    reader.refuse(tensor, fmt::format("expected scales of equal groups of {} columns", reader.cols()));
  return groups;
}

FoundMatrices read_mlx(ModuleReader& reader) {
  const uint64_t rows = reader.rows(), cols = reader.cols();
  const Tensor& codes = reader.need("weight");
  const Tensor& scales = reader.need("scales");
  const uint64_t words = codes.shape.empty() ? 0 : codes.shape.back();
  const bool is_4_bit = words == cols / kPerWord;
  const Shape own =
      reader.module().num_experts > 0 ? Shape{reader.module().num_experts, rows, words} : Shape{rows, words};
  check_columns(reader, codes, kPerWord, "words");
  if (codes.shape != own || (!is_4_bit && words != cols / 4))
    reader.refuse(codes, fmt::format("MLX's 4 and 8 bits of a matrix [{}, {}] take [{}, {}] and [{}, {}]",
                                     rows, cols, rows, cols / 8, rows, cols / 4));
  if (scales.dtype == DType::kU8) {
    if (!is_4_bit || reader.find("biases")) reader.refuse(scales, "U8 scales belong to MLX's mode mxfp4");
    check_columns(reader, scales, kMxfp4BlockSize, "groups");
    reader.need("scales", {DType::kU8}, {rows, cols / kMxfp4BlockSize});
    return reader.matrices({.layout = ForeignLayout::kMxfp4}, codes, &scales, nullptr);
  }
  const uint64_t groups = count_groups(reader, scales, 1);
  reader.need_finite("scales", kFloatTypes, {rows, groups});
  const Tensor& offsets = reader.need_finite("biases", {scales.dtype}, {rows, groups});
  return reader.matrices({.layout = is_4_bit ? ForeignLayout::kMlx4 : ForeignLayout::kMlx8,
                          .scale_dtype = scales.dtype,
                          .group = cols / groups,
                          .num_groups = groups},
                         codes, &scales, &offsets);
}

// Returns the group of each column (g_idx). Checks that every group exists, because decoders use it as an
// index.
const int32_t* groups_of_columns(ModuleReader& reader, uint64_t groups) {
  const Tensor& tensor = reader.need("g_idx", {DType::kI32}, {reader.cols()});
  const auto* group_of = reinterpret_cast<const int32_t*>(tensor.data.data());
  for (uint64_t c = 0; c < reader.cols(); ++c)
    if (group_of[c] < 0 || static_cast<uint64_t>(group_of[c]) >= groups)
      throw InputError("{}: value {} of tensor '{}' is {}; expected a group below {}", reader.file_of(tensor),
                       c, tensor.name, group_of[c], groups);
  return group_of;
}

FoundMatrices read_awq_or_gptq(ModuleReader& reader, const ForeignRules& rules) {
  const uint64_t rows = reader.rows(), cols = reader.cols();
  const Tensor& codes = reader.need("qweight");
  const Shape awq{cols, rows / kPerWord}, gptq{cols / kPerWord, rows};
  const bool is_gptq = codes.shape == gptq;
  if (codes.dtype != DType::kI32 || rows % kPerWord != 0 || cols % kPerWord != 0 ||
      (codes.shape != awq && !is_gptq))
    reader.refuse(codes,
                  fmt::format("4-bit weights of a GPTQ or AWQ checkpoint for a matrix [{}, {}] are I32 "
                              "{} (GPTQ) or {} (AWQ)",
                              rows, cols, gptq, awq));
  const Tensor& scales = reader.need("scales");
  const uint64_t groups = count_groups(reader, scales, 0);
  reader.need_finite("scales", kFloatTypes, {groups, rows});
  const Tensor& zeros = reader.need("qzeros", {DType::kI32}, {groups, rows / kPerWord});
  ForeignMatrix matrix{.layout = is_gptq ? ForeignLayout::kGptq : ForeignLayout::kAwq,
                       .scale_dtype = scales.dtype,
                       .group = cols / groups,
                       .num_groups = groups};
  if (is_gptq) {
    if (!rules.gptq_zero_offset)
      reader.refuse(codes,
                    "this is GPTQ's layout, but config.json has no quantization_config of GPTQ, "
                    "which says how zero points are stored");
    matrix.zero_offset = *rules.gptq_zero_offset;
    if (reader.find("g_idx")) matrix.group_of = groups_of_columns(reader, groups);
  }
  return reader.matrices(matrix, codes, &scales, &zeros);
}

FoundMatrices read_int4(ModuleReader& reader) {
  const uint64_t rows = reader.rows(), cols = reader.cols();
  if (const Tensor* order = reader.find("weight_g_idx"))
    reader.refuse(*order, "nibble reads compressed-tensors' weights in groups of adjacent columns only");
  check_columns(reader, *reader.find("weight_packed"), kPerWord, "words");
  const Tensor& codes = reader.need("weight_packed", {DType::kI32}, {rows, cols / kPerWord});
  const Tensor& scales = reader.need("weight_scale");
  const uint64_t groups = count_groups(reader, scales, 1);
  reader.need_finite("weight_scale", kFloatTypes, {rows, groups});
  const Tensor* zeros = nullptr;
  if (reader.find("weight_zero_point"))
    zeros = &reader.need("weight_zero_point", {DType::kI32}, {(rows + kPerWord - 1) / kPerWord, groups});
  reader.use("weight_shape");
  return reader.matrices({.layout = ForeignLayout::kInt4,
                          .scale_dtype = scales.dtype,
                          .group = cols / groups,
                          .num_groups = groups},
                         codes, &scales, zeros);
}

FoundMatrices read_fp8(ModuleReader& reader) {
  const uint64_t rows = reader.rows();
  const Tensor& codes = reader.need("weight", {DType::kF8E4M3}, {rows, reader.cols()});
  const Tensor& scales = reader.need("weight_scale");
  const bool is_one = scales.shape == Shape{} || scales.shape == Shape{1};
  const bool is_float = scales.dtype == DType::kBf16 || scales.dtype == DType::kF32;
  if (!is_float || !(is_one || scales.shape == Shape{rows} || scales.shape == Shape{rows, 1}))
    reader.refuse(scales, fmt::format("expected BF16 or F32 [1] or [{}, 1]", rows));
  check_numbers(scales, reader.file_of(scales), Sign::kPositive);
  reader.use("input_scale");
  return reader.matrices(
      {.layout = ForeignLayout::kFp8, .scale_dtype = scales.dtype, .has_row_scales = !is_one}, codes, &scales,
      nullptr);
}

}  // namespace

std::optional<FoundMatrices> find_foreign(const Container& container, const ForeignModule& module,
                                          const ForeignRules& rules) {
  ModuleReader reader(container, module);
  const Tensor *weight = reader.find("weight"), *integers = reader.find("weight_packed");
  if (module.is_parameter) {
    if (!weight || weight->dtype != DType::kU8) return std::nullopt;
    return read_nvfp4(reader, "weight", "weight_scale_2");
  }
  if (reader.find("qweight") && module.num_experts == 0) return read_awq_or_gptq(reader, rules);
  if (integers && integers->dtype == DType::kU8 && module.num_experts == 0)
    return read_nvfp4(reader, "weight_packed", "weight_global_scale");
  if (integers && module.num_experts == 0) return read_int4(reader);
  if (!weight) return std::nullopt;
  if (weight->dtype == DType::kU32) return read_mlx(reader);
  if (weight->dtype == DType::kU8 && reader.find("weight_scale_2") && module.num_experts == 0)
    return read_nvfp4(reader, "weight", "weight_scale_2");
  if (weight->dtype == DType::kF8E4M3 && module.num_experts == 0) return read_fp8(reader);
  return std::nullopt;
}

}  // namespace nibble
