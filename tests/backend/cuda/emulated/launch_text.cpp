#include "tests/backend/cuda/emulated/launch_text.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "tests/backend/cuda/emulated/kernel_names.h"

namespace nibble::emulated {
namespace {

using namespace cuda;

// Appends " name=value" for each field that is not zero.
class Text {
 public:
  explicit Text(const NamedArrays& arrays) : arrays_(arrays) {}

  template <typename T>
  Text& operator()(const char* name, const T& value) {
    std::string words;
    if constexpr (std::is_pointer_v<T>) {
      if (value) words = address(reinterpret_cast<uintptr_t>(value));
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      if (value != T{}) words = fmt::to_string(static_cast<int64_t>(value));
    } else {
      T copy = value;
      words = words_of(bytes_without_padding(copy));
    }
    if (!words.empty()) text += fmt::format(" {}={}", name, words);
    return *this;
  }
  // Returns the 4-byte words that are not zero, each after its index, such as "{3:128 4:normed}".
  std::string words_of(std::span<const uint8_t> bytes) const {
    std::string words;
    const auto add = [&](size_t at, const std::string& word) {
      words += fmt::format("{}{}:{}", words.empty() ? "{" : " ", at / 4, word);
    };
    for (size_t at = 0; at < bytes.size(); at += 4) {
      uintptr_t pointer = 0;
      if (at % 8 == 0 && at + 8 <= bytes.size()) std::memcpy(&pointer, bytes.data() + at, 8);
      if (const std::string name = arrays_.name_of(pointer); !name.empty()) {
        add(at, name);
        at += 4;
        continue;
      }
      uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min<size_t>(4, bytes.size() - at));
      if (word != 0) add(at, fmt::to_string(word));
    }
    return words.empty() ? words : words + "}";
  }

  std::string text;

 private:
  std::string address(uintptr_t pointer) const {
    const std::string name = arrays_.name_of(pointer);
    return name.empty() ? "an unknown address" : name;
  }

  const NamedArrays& arrays_;
};

// Writes activations as two fields: `name`, the array, and `rows`, the number of rows if the array is an
// image (swizzled tiles for wgmma).
void put(Text& to, const char* name, const char* rows, const Activations& a) {
  if (a.layout != ActivationLayout::kBlocks) to(name, a.data)(rows, a.data ? a.image_rows : 0);
}
BlockRows blocks_of(const Activations& a) {
  return a.layout == ActivationLayout::kBlocks ? a.blocks : BlockRows{};
}

void put(Text& to, const RmsNormArgs& a) {
  to("norm", a.norm)("num_tokens", a.num_tokens)("x", a.x);
  put(to, "normed", "image_rows", a.normed);
  to("blocks", a.blocks.codes ? a.blocks : BlockRows{})("rows", a.rows);
}
void put(Text& to, const QkvArgs& a) {
  to("norm", a.norm);
  put(to, "normed", "image_rows", a.normed);
  to("normed_blocks", blocks_of(a.normed));
  to("weights", a.weights)("bias", a.bias)("num_tokens", a.num_tokens)("parts", a.parts)("sums", a.sums)(
      "ahead", a.ahead);
}
void put(Text& to, const AppendArgs& a) {
  to("input", a.input)("parts", a.parts)("has_rest", a.has_rest)("num_tokens", a.num_tokens);
  to("num_heads", a.num_heads)("num_kv_heads", a.num_kv_heads)("rope", a.rope)("pages", a.pages);
  put(to, "queries", "image_rows", a.queries);
}
void put(Text& to, const AttendArgs& a) {
  to("input", a.input)("parts", a.parts)("has_rest", a.has_rest)("num_tokens", a.num_tokens);
  to("num_heads", a.num_heads)("num_kv_heads", a.num_kv_heads)("rope", a.rope)("pages", a.pages);
  to("window", a.window)("sinks", a.sinks)("writes_kv", a.writes_kv)("first_row", a.first_row);
  to("max_chunks", a.max_chunks)("partials", a.partials)("tickets", a.tickets);
  put(to, "out", "image_rows", a.out);
  to("mailbox", a.mailbox)("mailbox_partials", a.mailbox_partials);
}
void put(Text& to, const AttendTilesArgs& a) {
  to("input", a.input)("num_heads", a.num_heads)("num_kv_heads", a.num_kv_heads)("pages", a.pages);
  to("window", a.window)("sinks", a.sinks);
  put(to, "attended", "image_rows", a.attended);
  to("mailbox", a.mailbox);
}
void put(Text& to, const ProjectArgs& a) {
  put(to, "attended", "image_rows", a.attended);
  to("attended_blocks", blocks_of(a.attended));
  to("cols", a.cols)("residual", a.residual);
  to("weights", a.weights)("bias", a.bias)("num_tokens", a.num_tokens)("parts", a.parts)("sums", a.sums);
  to("attended_chunks", a.attended_chunks);
}
void put(Text& to, const RouteArgs& a) {
  to("hidden", a.hidden)("weights", a.weights)("bias", a.bias)("num_tokens", a.num_tokens);
  to("experts_per_token", a.experts_per_token)("own", a.own);
  put(to, "normed", "image_rows", a.normed);
  to("logits", a.logits)("chosen", a.chosen)("rank", a.rank)("ticket", a.ticket)("groups", a.groups);
  to("norm", a.norm)("x", a.x);
}
void put(Text& to, const ExpertsUpArgs& a) {
  put(to, "normed", "image_rows", a.normed);
  to("gathered", a.normed.image_rows ? a.gathered.data : nullptr);
  put(to, "gated", "image_pairs", a.gated);
  to("normed_blocks", blocks_of(a.normed))("gated_blocks", blocks_of(a.gated));
  to("groups", a.groups)("num_tokens", a.num_tokens)("experts_per_token", a.experts_per_token);
  to("max_groups", a.max_groups)("up", a.up)("logits", a.logits)("routing", a.routing);
  to("num_experts", a.num_experts)("own", a.own);
}
void put(Text& to, const ExpertsDownArgs& a) {
  put(to, "gated", "image_pairs", a.gated);
  to("gated_blocks", blocks_of(a.gated));
  to("groups", a.groups)("routing", a.routing)("own", a.own)("num_experts", a.num_experts);
  to("num_tokens", a.num_tokens)("experts_per_token", a.experts_per_token)("max_groups", a.max_groups);
  to("hidden", a.hidden)("intermediate", a.intermediate)("weights", a.weights)("bias", a.bias);
  to("out", a.out)("turns", a.turns);
}
void put(Text& to, const UnembedArgs& a) {
  to("norm", a.norm)("rows", a.rows)("num_rows", a.num_rows)("weights", a.weights)("logits", a.logits);
  put(to, "normed", "image_rows", a.normed);
  to("normed_blocks", blocks_of(a.normed));
  to("row_stride", a.row_stride)("deals", a.deals);
}

// Copies of argument types that are only defined in the kernel files named here.
struct LaunchedArgs : AttendArgs {  // attention/rows.cu
  int num_joining;
};
void put(Text& to, const LaunchedArgs& a) {
  put(to, static_cast<const AttendArgs&>(a));
  to("num_joining", a.num_joining);
}
struct DealtUnembedArgs {  // dense/unembed_dealt.cu
  UnembedArgs of;
  struct {
    Strips hand;
    int num_strips, num_fixed;
  } matrix;
};
void put(Text& to, const DealtUnembedArgs& a) {
  put(to, a.of);
  to("matrix", a.matrix);
}
struct SplitArgs {  // dense/wgmma_split.cu
  Strips weights;
  const __nv_bfloat16* activations;
  int image_rows, num_tokens;
  float* sums;
};
void put(Text& to, const SplitArgs& a) {
  to("weights", a.weights)("activations", a.activations)("image_rows", a.image_rows);
  to("num_tokens", a.num_tokens)("sums", a.sums);
}

std::string name_of(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  const std::string name = text ? text.get() : type.name();
  return name.substr(name.rfind(':') + 1);
}

template <typename Args>
bool put_if(Text& to, const std::string& type, const char* name, std::span<const uint8_t> bytes) {
  if (type != name) return false;
  if (bytes.size() != sizeof(Args)) {
    to.text += fmt::format(" {} of another size", name);
    return true;
  }
  Args args;
  std::memcpy(static_cast<void*>(&args), bytes.data(), sizeof args);
  put(to, args);
  return true;
}

void put(Text& to, const RecordedLaunch::Argument& argument) {
  const std::string type = name_of(argument.type);
#define NIBBLE_PUT(Args) put_if<Args>(to, type, #Args, argument.bytes)
  if (NIBBLE_PUT(RmsNormArgs) || NIBBLE_PUT(QkvArgs) || NIBBLE_PUT(AppendArgs) || NIBBLE_PUT(LaunchedArgs) ||
      NIBBLE_PUT(AttendTilesArgs) || NIBBLE_PUT(ProjectArgs) || NIBBLE_PUT(RouteArgs) ||
      NIBBLE_PUT(ExpertsUpArgs) || NIBBLE_PUT(ExpertsDownArgs) || NIBBLE_PUT(UnembedArgs) ||
      NIBBLE_PUT(DealtUnembedArgs) || NIBBLE_PUT(SplitArgs))
    return;
#undef NIBBLE_PUT
  if (const std::string words = to.words_of(argument.bytes); !words.empty())
    to.text += fmt::format(" {}{}", type, words);
}

}  // namespace

std::string NamedArrays::name_of(uintptr_t address) const {
  for (const Array& array : arrays_)
    if (address >= array.base && address - array.base < array.bytes) {
      const uintptr_t offset = address - array.base;
      return offset == 0 ? array.name : fmt::format("{}+{}", array.name, offset);
    }
  return {};
}

std::string text_of(const RecordedLaunch& launch, const NamedArrays& arrays) {
  const cudaLaunchConfig_t& config = launch.config;
  const auto dimensions = [](const dim3& of) { return fmt::format("{}x{}x{}", of.x, of.y, of.z); };
  Text text(arrays);
  text.text = fmt::format("{} grid={} threads={} shared={}", kernel_name(launch.kernel),
                          dimensions(config.gridDim), dimensions(config.blockDim), config.dynamicSmemBytes);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization) text.text += " dependent";
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension)
      text.text += fmt::format(" cluster={}", config.attrs[i].val.clusterDim.x);
  }
  for (const RecordedLaunch::Argument& argument : launch.arguments) put(text, argument);
  return text.text;
}

std::string text_of(const HalfOutput& output, const NamedArrays& arrays) {
  const SumTerms& o = output.terms;
  Text text(arrays);
  text.text = "output of half a layer";
  text("operation", output.operation)("parts", o.parts)("num_parts", o.num_parts)("part_stride",
                                                                                  o.part_stride);
  text("row_stride", o.row_stride)("x", o.x)("out", o.out)("norm", o.norm.weights);
  text("image_rows", o.norm.weights ? o.norm.image_rows : 0)("weights", o.weights)("part_rows", o.part_rows);
  return text.text;
}

}  // namespace nibble::emulated
