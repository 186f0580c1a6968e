#include "model/golden/golden.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "formats/open_container.h"

namespace nibble {
namespace {

constexpr uint64_t kAny{std::numeric_limits<uint64_t>::max()};

class Tensors {  // the tensors of a golden file, with dtype and shape checked
 public:
  explicit Tensors(const std::filesystem::path& file)
      : file_(file.string()), container_(open_container(file)) {}

  bool has(const std::string& name) const { return container_.find(name) != nullptr; }
  // kAny in `shape` matches any extent.
  std::vector<float> floats(const std::string& name, const Shape& shape) const {
    return elements<float>(name, DType::kF32, shape);
  }
  std::vector<TokenId> ids(const std::string& name, const Shape& shape, uint64_t vocab) const {
    std::vector<TokenId> ids = elements<TokenId>(name, DType::kI32, shape);
    for (const TokenId id : ids)
      if (id < 0 || static_cast<uint64_t>(id) >= vocab)
        throw InputError("{}: tensor '{}' has token {}, but the vocabulary has {}", file_, name, id, vocab);
    if (ids.empty()) throw InputError("{}: tensor '{}' is empty", file_, name);
    return ids;
  }
  uint64_t extent(const std::string& name, size_t axis) const {
    const Tensor& tensor = at(name);
    if (axis >= tensor.shape.size())
      throw InputError("{}: tensor '{}' is {}: golden data need more dimensions", file_, name, tensor.shape);
    return tensor.shape[axis];
  }

 private:
  const Tensor& at(const std::string& name) const {
    const Tensor* tensor = container_.find(name);
    if (!tensor) throw InputError("{}: tensor '{}' is missing; golden data need it", file_, name);
    return *tensor;
  }
  template <typename T>
  std::vector<T> elements(const std::string& name, DType dtype, const Shape& shape) const {
    const Tensor& tensor = at(name);
    const auto accepts = [](uint64_t expected, uint64_t extent) {
      return expected == kAny || expected == extent;
    };
    if (tensor.dtype != dtype ||
        !std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(), accepts))
      throw InputError("{}: tensor '{}' is {} {}; expected {} with {} dimensions that fit the other tensors",
                       file_, name, tensor.dtype, tensor.shape, dtype, shape.size());
    std::vector<T> copy(tensor.data.size() / sizeof(T));
    std::memcpy(copy.data(), tensor.data.data(), tensor.data.size());
    return copy;
  }

  std::string file_;
  Container container_;
};

GoldenPrompt read_prompt(const Tensors& tensors, const std::string& name, uint64_t vocab) {
  GoldenPrompt prompt;
  prompt.name = name;
  prompt.ids = tensors.ids(name + ".ids", {kAny}, vocab);
  const uint64_t num_tokens = prompt.ids.size();
  prompt.logits = tensors.floats(name + ".last_logits", {vocab});
  prompt.num_logit_rows = 1;
  prompt.top_ids = tensors.ids(name + ".top5_ids", {num_tokens, kGoldenTop}, vocab);
  prompt.top_logprobs = tensors.floats(name + ".top5_logprobs", {num_tokens, kGoldenTop});
  prompt.greedy = tensors.ids(name + ".greedy", {kAny}, vocab);
  prompt.greedy_gap = tensors.floats(name + ".greedy_gap", {prompt.greedy.size()});
  prompt.router_margin = tensors.floats(name + ".router_margin", {num_tokens});
  if (tensors.has(name + ".hidden")) {
    prompt.hidden = tensors.floats(name + ".hidden", {kAny, num_tokens, kAny});
    prompt.num_hidden_rows = static_cast<int>(num_tokens);
  } else if (tensors.has(name + ".hidden_last")) {
    prompt.hidden = tensors.floats(name + ".hidden_last", {kAny, kAny});
    prompt.num_hidden_rows = 1;
  }
  return prompt;
}

GoldenSet read_index(const std::filesystem::path& file) {
  GoldenSet set;
  const auto tensor_file = std::filesystem::path(file).replace_extension(".safetensors");
  const Tensors tensors(tensor_file);
  try {
    const auto index = nlohmann::json::parse(read_text_file(file));
    set.vocab = index.at("vocab").get<int>();
    if (set.vocab <= kGoldenTop)
      throw InputError("{}: a vocabulary of {} tokens; golden data need more than {}", file.string(),
                       set.vocab, kGoldenTop);
    for (const auto& entry : index.at("prompts")) {
      set.prompts.push_back(
          read_prompt(tensors, entry.at("name").get<std::string>(), static_cast<uint64_t>(set.vocab)));
      set.prompts.back().computed_by = entry.value("computed_by", "");
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        "{}: not an index of golden data (an object with 'vocab' and a list 'prompts' with a 'name' each): "
        "{}",
        file.string(), error.what());
  }
  return set;
}

GoldenSet read_logits_file(const std::filesystem::path& file) {
  GoldenSet set;
  const Tensors tensors(file);
  const uint64_t vocab = tensors.extent("logits0", 1);
  set.vocab = static_cast<int>(vocab);
  for (int i = 0; tensors.has("ids" + std::to_string(i)); ++i) {
    GoldenPrompt prompt;
    prompt.name = file.parent_path().filename().string() + std::to_string(i);
    prompt.ids = tensors.ids("ids" + std::to_string(i), {kAny}, vocab);
    prompt.logits = tensors.floats("logits" + std::to_string(i), {prompt.ids.size(), vocab});
    prompt.num_logit_rows = static_cast<int>(prompt.ids.size());
    set.prompts.push_back(std::move(prompt));
  }
  return set;
}

}  // namespace

GoldenSet read_golden(const std::filesystem::path& file) {
  return file.extension() == ".json" ? read_index(file) : read_logits_file(file);
}

}  // namespace nibble
