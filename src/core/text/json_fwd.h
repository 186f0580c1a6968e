// Declares nlohmann::json with an allocator that waits for memory. Include this file or core/text/json.h,
// never the library's own headers (a test checks that): the specialisation below must precede the first use
// of std::allocator with these types.
// A failed allocation would end the process in two places of the library (3.11.2). The destructor of json
// flattens nested values into a std::vector<json>, which it allocates. When a null value becomes an array or
// object, a failed allocation leaves the new type with a null pointer, which the destructor dereferences. So
// allocations of JSON values wait until memory is free. All other allocations throw std::bad_alloc at once.
#pragma once

#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nibble {

using Json = nlohmann::ordered_json;  // keeps the order of members

// Allocates by operator new. If that fails, retries for 5 s, then throws std::bad_alloc.
void* wait_for_json_memory(size_t bytes);

// The types json::array_t and json::object_t, written out. core/text/json.h checks that they are the same.
using JsonArray = std::vector<nlohmann::json>;
using JsonObject = std::map<std::string, nlohmann::json, std::less<>,
                            std::allocator<std::pair<const std::string, nlohmann::json>>>;
using OrderedJsonArray = std::vector<nlohmann::ordered_json>;
using OrderedJsonObject =
    nlohmann::ordered_map<std::string, nlohmann::ordered_json, std::less<>,
                          std::allocator<std::pair<const std::string, nlohmann::ordered_json>>>;

template <typename T>
concept JsonPart = std::same_as<T, nlohmann::json> || std::same_as<T, JsonArray> ||
    std::same_as<T, JsonObject> || std::same_as<T, nlohmann::ordered_json> ||
    std::same_as<T, OrderedJsonArray> || std::same_as<T, OrderedJsonObject>;

}  // namespace nibble

// The C++ standard ([namespace.std]) allows this specialisation: every T depends on a type outside std.
template <nibble::JsonPart T>
class std::allocator<T> {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  constexpr allocator() noexcept = default;
  template <typename U>
  constexpr allocator(const allocator<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t number) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (number > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(nibble::wait_for_json_memory(number * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t) noexcept { ::operator delete(memory); }

  friend constexpr bool operator==(const allocator&, const allocator&) noexcept { return true; }
};
