#include "cli/config_file.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/text/near_name.h"

namespace nibble::cli {
namespace {

constexpr size_t kMaxBytes{1 << 20};

// Whether the file may contain the flag. Excludes --help, --config and --check, which are actions.
bool is_setting(const CLI::Option& option) {
  return !option.get_lnames().empty() && !option.check_lname("help") && !option.check_lname("config") &&
         !option.check_lname("check");
}

class ConfigFile {
 public:
  ConfigFile(CLI::App& command, const std::string& file) : command_(command), file_(file) {}

  void read() {
    toml::table table;
    try {
      table = toml::parse(read_text_file(file_, kMaxBytes), file_);
    } catch (const toml::parse_error& error) {
      throw InputError("--config {}, line {}: {}", file_, error.source().begin.line, error.description());
    }
    for (const auto& [key, value] : table) read_entry(key.str(), value);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(const toml::node& value, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw InputError("--config {}, line {}: {}", file_, value.source().begin.line,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  void read_entry(std::string_view key, const toml::node& value) {
    CLI::Option& option = find(key, value);
    if (std::ranges::find(seen_, &option) != seen_.end())
      refuse(value, "'{}' is set twice: it is another name for {}", key, option.get_name());
    seen_.push_back(&option);
    const std::vector<std::string> texts = texts_of(key, value, option);
    if (texts.empty() || is_given(command_, option)) return;
    try {
      for (const std::string& text : texts) option.add_result(text);
      option.run_callback();
    } catch (const InputError& error) {
      refuse(value, "{}", error.what());
    } catch (const CLI::ParseError& error) {
      refuse(value, "{}", error.what());
    }
  }

  CLI::Option& find(std::string_view key, const toml::node& value) const {
    std::vector<std::string> names;
    for (CLI::Option* option : command_.get_options()) {
      if (!is_setting(*option)) continue;
      for (const std::string& name : option->get_lnames()) {
        if (name == key) return *option;
        names.push_back(name);
      }
    }
    refuse(value, "unknown setting '{}'{} The settings are the flags of 'nibble {} --help'", key,
           guess(key, names), command_.get_name());
  }

  // Converts a TOML value to command-line arguments, one per element of a list. A switch (a flag without a
  // value) that is false becomes no argument.
  std::vector<std::string> texts_of(std::string_view key, const toml::node& value,
                                    const CLI::Option& option) const {
    if (option.get_expected_max() == 0) {
      if (!value.is_boolean()) refuse(value, "'{}' must be true or false", key);
      return value.value_or(false) ? std::vector<std::string>{"true"} : std::vector<std::string>();
    }
    const toml::array* list = value.as_array();
    if (!list) return {text_of(key, value)};
    if (option.get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll)
      refuse(value, "'{}' takes one value, not a list", key);
    std::vector<std::string> texts;
    for (const toml::node& element : *list) texts.push_back(text_of(key, element));
    return texts;
  }

  std::string text_of(std::string_view key, const toml::node& value) const {
    if (const auto text = value.value_exact<std::string>()) return *text;
    if (const auto number = value.value_exact<int64_t>()) return fmt::to_string(*number);
    if (const auto number = value.value_exact<double>()) return fmt::to_string(*number);
    if (const auto flag = value.value_exact<bool>()) return *flag ? "true" : "false";
    if (const auto date = value.value_exact<toml::date>())
      return fmt::format("{:04}-{:02}-{:02}", date->year, date->month, date->day);
    if (value.is_table())
      refuse(value, "'{}' is a table: put settings at the top level, outside of [tables]", key);
    refuse(value, "'{}' must be a text, a number, a date, true, false, or a list of these", key);
  }

  CLI::App& command_;
  const std::string& file_;
  std::vector<const CLI::Option*> seen_;
};

}  // namespace

void add_config_file(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--config", [&command](const std::string& file) { ConfigFile(command, file).read(); },
          "read flags from a TOML file, by their names without dashes: port = 8000; the command line\nand "
          "NIBBLE_* variables take precedence over it")
      ->type_name("FILE")
      ->group("Server");
}

}  // namespace nibble::cli
