#include "harmony/json_text.h"

#include <charconv>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace nibble::harmony {

namespace {

constexpr size_t kMaxDepth{128};  // the official library's limit, for code that recurses
// Limits the members of one object, because each insertion into an ordered object searches all its keys.
constexpr size_t kMaxMembers{10'000};

// Writes a double as Rust does: the shortest digits that read back as the same number. From 1e-5 to 1e16
// without an exponent, elsewhere with an exponent that has neither a plus sign nor leading zeros.
std::string number_text(double value) {
  char buffer[64];
  const auto print = [&](std::chars_format format) {
    const auto [last, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, format);
    return std::string(buffer, last);
  };
  const std::string scientific = print(std::chars_format::scientific);  // "1.5e-07"
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (value != 0 && (exponent < -5 || exponent > 15))
    return scientific.substr(0, e) + 'e' + std::to_string(exponent);
  std::string plain = print(std::chars_format::fixed);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

void write(const Json& value, JsonSpacing spacing, std::string& out) {
  const bool spaced = spacing == JsonSpacing::kAfterCommas;
  const char* separator = "";
  if (value.is_object()) {
    out += '{';
    for (const auto& [key, member] : value.items()) {
      out += separator;
      out += Json(key).dump();
      out += spaced ? ": " : ":";
      write(member, spacing, out);
      separator = spaced ? ", " : ",";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& element : value) {
      out += separator;
      write(element, spacing, out);
      separator = spaced ? ", " : ",";
    }
    out += ']';
  } else if (value.is_number_float()) {
    out += number_text(value.get<double>());
  } else {
    out += value.dump();
  }
}

// Builds the Json. nlohmann's own builder is not used: with a callback, which could refuse input, it scans
// the whole list or object after each new value.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}

  Json take() { return std::move(root_); }
  const std::string& fault() const { return fault_; }  // empty unless the text is not JSON

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [member, is_new] = members.emplace(name, nullptr);
    if (!is_new) refuse_duplicate(name);
    if (members.size() > kMaxMembers)
      throw InputError("{} contains an object with more than {} members", what_, kMaxMembers);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fault_ = error.what();
    return false;
  }

 private:
  // Adds the value to the innermost open list or object and returns its address.
  Json* put(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent.get_ref<Json::object_t&>().back().second = std::move(value));
  }
  template <typename Value>
  bool add(Value&& value) {
    put(Json(std::forward<Value>(value)));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kMaxDepth)
      throw InputError("{} is nested more than {} levels deep", what_, kMaxDepth);
    open_.push_back(put(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  [[noreturn]] void refuse_duplicate(const std::string& name) const {
    constexpr size_t kMaxShown{100};
    std::string place;
    for (const Json* value : open_) {
      const bool is_inner = value == open_.back();
      if (value->is_array())
        place += '[' + std::to_string(value->size() - 1) + ']';
      else
        place += (place.empty() ? "" : ".") +
                 (is_inner ? name : value->get_ref<const Json::object_t&>().back().first);
    }
    throw InputError("{} contains {} twice; remove one of them", what_,
                     json_text(Json(place), JsonForm::kAsciiLine).substr(0, kMaxShown));
  }

  std::string_view what_;
  Json root_;
  // Objects and lists not closed yet, outermost first. Each is the last child of the one before it, and a
  // list or object grows only after its last child is closed. So growth moves no open child: the pointers
  // stay valid.
  std::vector<Json*> open_;
  std::string fault_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  Builder builder(what);
  if (Json::sax_parse(text, &builder)) return builder.take();
  const std::string_view message = builder.fault();  // "[json.exception.parse_error.101] parse error at ..."
  const size_t end_of_tag = message.find("] ");
  throw InputError("{} is not valid JSON: {}", what,
                   end_of_tag == std::string_view::npos ? message : message.substr(end_of_tag + 2));
}

std::string json_line(const Json& value, JsonSpacing spacing) {
  std::string out;
  write(value, spacing, out);
  return out;
}

}  // namespace nibble::harmony
