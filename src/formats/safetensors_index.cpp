#include "formats/safetensors_index.h"

#include <algorithm>

#include "formats/container_error.h"
#include "formats/untrusted_json.h"

namespace nibble {
namespace {

using Fault = ContainerFault;

constexpr size_t kMaxIndexDepth{16};  // the weight map needs 2 levels, but "metadata" may hold any JSON

// Whether `name` has no folder part, so that it names a file in the folder of the index. The file may be a
// link: a Hugging Face cache has links.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::ranges::none_of(name, [](char c) { return c == '/' || c == '\\' || c == '\0'; });
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view json, const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (parse_untrusted_json(parser, json, kMaxIndexDepth, path).get(root))
    throw ContainerError(Fault::kBadIndex, path, "it is not an object");
  simdjson::dom::object weight_map;
  bool has_weight_map = false;
  for (const auto [key, value] : root) {
    if (key != "weight_map") continue;
    if (has_weight_map) throw ContainerError(Fault::kDuplicateName, path, "weight_map");
    if (value.get(weight_map)) throw ContainerError(Fault::kBadIndex, path, "weight_map is not an object");
    has_weight_map = true;
  }
  if (!has_weight_map) throw ContainerError(Fault::kBadIndex, path, "it has no weight_map");

  SafetensorsIndex index;
  std::unordered_map<std::string_view, size_t> places;
  for (const auto [tensor, value] : weight_map) {
    std::string_view file;
    if (value.get(file))
      throw ContainerError(Fault::kBadIndex, path, "the file of {} is not a string", in_quotes(tensor));
    if (!is_plain_file_name(file))
      throw ContainerError(Fault::kBadFileName, path,
                           "the index assigns {} to {}, which is not a plain file name", in_quotes(tensor),
                           in_quotes(file));
    const auto [place, is_new_file] = places.try_emplace(file, index.files.size());
    if (is_new_file) index.files.emplace_back(file);
    if (!index.file_index.try_emplace(std::string(tensor), place->second).second)
      throw ContainerError(Fault::kDuplicateName, path, "{}", in_quotes(tensor));
  }
  if (index.files.empty()) throw ContainerError(Fault::kBadIndex, path, "its weight_map is empty");
  return index;
}

}  // namespace nibble
