#include "formats/untrusted_json.h"

#include <new>

#include "formats/container_error.h"

namespace nibble {
namespace {

ContainerFault fault_of(simdjson::error_code error) {
  switch (error) {
    case simdjson::UTF8_ERROR:
      return ContainerFault::kInvalidUtf8;
    case simdjson::DEPTH_ERROR:
      return ContainerFault::kTooDeep;
    case simdjson::NUMBER_ERROR:
      return ContainerFault::kBadNumber;
    default:
      return ContainerFault::kInvalidJson;
  }
}

}  // namespace

simdjson::dom::element parse_untrusted_json(simdjson::dom::parser& parser, std::string_view text,
                                            size_t max_depth, const std::filesystem::path& path) {
  // simdjson accepts one level less than the depth passed to allocate().
  simdjson::error_code error = parser.allocate(text.size(), max_depth + 1);
  simdjson::dom::element root;
  if (!error) error = parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error) {
    std::string_view message = simdjson::error_message(error);
    message = message.substr(0, message.find_last_not_of('.') + 1);  // ContainerError adds its own full stop
    throw ContainerError(fault_of(error), path, "{}", message);
  }
  return root;
}

}  // namespace nibble
