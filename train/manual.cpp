#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "train/program.h"

namespace foldgrad {
namespace {

// Escapes text, so that man prints it unchanged. `\&` keeps a line that begins with a dot from being a request.
std::string plain(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\')
      all += "\\e";
    else if (c == '-')
      all += "\\-";
    else if ((c == '.' || c == '\'') && (all.empty() || all.back() == '\n'))
      (all += "\\&") += c;
    else
      all += c;
  }
  return all;
}

std::string option_entry(const CLI::Option& option) {
  const bool positional = option.get_positional();
  std::string head = fmt::format("\\fB{}\\fR", plain(option.get_name(positional, !positional)));
  if (option.get_items_expected_max() > 0) head += fmt::format(" \\fI{}\\fR", plain(option.get_type_name()));
  std::string text = plain(option.get_description());
  if (!option.get_default_str().empty()) text += fmt::format(" (default {})", plain(option.get_default_str()));
  return fmt::format(".TP\n{}\n{}\n", head, text.empty() ? "\\&" : text);
}

std::string option_entries(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    if (!command.get_parent() || option != command.get_help_ptr()) text += option_entry(*option);
  return text;
}

// Returns a section for each command below `command`; `name` is its full name.
std::string sections(const CLI::App& command, const std::string& name) {
  std::string text;
  for (const CLI::App* sub : command.get_subcommands({})) {
    const std::string full_name = name + " " + sub->get_display_name(/*with_aliases=*/true);
    text += fmt::format(".SS \"{}\"\n{}.\n{}", plain(full_name), plain(sub->get_description()), option_entries(*sub));
    if (!sub->get_footer().empty()) text += fmt::format(".PP\n{}\n", plain(sub->get_footer()));
    text += sections(*sub, name + " " + sub->get_name());
  }
  return text;
}

}  // namespace

std::string manual(const CLI::App& program, const std::string& version) {
  return fmt::format(
      ".TH FOLDGRAD 1 \"\" \"foldgrad {}\" \"User Commands\"\n"
      ".SH NAME\nfoldgrad \\- {}\n"
      ".SH SYNOPSIS\n.B foldgrad\n[OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]\n"
      ".SH OPTIONS\n{}"
      ".SH COMMANDS\n{}",
      version, plain(program.get_description()), option_entries(program), sections(program, "foldgrad"));
}

}  // namespace foldgrad
