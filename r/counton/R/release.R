# Numbers of a row, in the order of a table's columns.
NUMBERS <- c(
  "estimate", "std", "lower", "upper",
  "window_estimate", "window_std", "window_lower", "window_upper"
)

read_release <- function(path) {
  beside <- paste0(path, ".json")
  for (file in c(path, beside)) {
    if (!file.exists(file)) {
      stop(sprintf("'%s' is not there: give a CSV file that counton wrote, with its '%s'",
                   file, basename(beside)), call. = FALSE)
    }
  }
  facts <- jsonlite::fromJSON(beside, simplifyVector = FALSE)
  said <- facts$description
  if (is.null(said)) {
    stop(sprintf("'%s' carries no description: export it again from its state", beside),
         call. = FALSE)
  }
  if (!identical(as.integer(said$format), 3L)) {
    stop(sprintf("'%s' has format %s, and this package reads format 3: install the package of the counton that wrote it",
                 beside, said$format), call. = FALSE)
  }
  between <- if (is.null(facts$csv)) "," else facts$csv$separator
  comma <- !is.null(facts$csv) && facts$csv$decimal == ","
  table <- utils::read.csv(
    path, colClasses = "character", check.names = FALSE, na.strings = "", encoding = "UTF-8",
    sep = between
  )
  mark <- rawToChar(as.raw(c(0xef, 0xbb, 0xbf)))  # before CSV with semicolons, for Excel
  names(table)[1] <- sub(mark, "", names(table)[1], fixed = TRUE, useBytes = TRUE)
  for (name in names(table)) {
    if (name %in% c(NUMBERS, "step", "value")) {
      plain <- if (comma) sub(",", ".", table[[name]], fixed = TRUE) else table[[name]]
      table[[name]] <- as.numeric(plain)
    } else if (name %in% c("window_start", "window_end")) {
      table[[name]] <- moments(table[[name]])
    } else if (!identical(facts$csv_formulas, "keep")) {
      table[[name]] <- as_written(table[[name]])
    }
  }
  structure(
    list(name = facts$name, level = said$level, table = table, facts = facts),
    class = "counton_release"
  )
}

# Names without the apostrophe that keeps a spreadsheet from reading a formula.
as_written <- function(texts) {
  sub("^'('*[=+@\t\r\uFF1D\uFF0B\uFF0D\uFF20-])", "\\1", texts, perl = TRUE)
}

# Moments of ISO 8601 with an offset, such as 2024-03-01T00:00:00+01:00.
moments <- function(texts) {
  plain <- sub("\\.[0-9]+", "", sub("Z$", "+00:00", texts))
  as.POSIXct(sub("([+-][0-9]{2}):([0-9]{2})$", "\\1\\2", plain), format = "%Y-%m-%dT%H:%M:%S%z",
             tz = "UTC")
}

as.data.frame.counton_release <- function(x, ...) x$table

print.counton_release <- function(x, ...) {
  cat(sprintf("%s: %s rows\n", x$name, format(nrow(x$table), big.mark = ",")))
  cat(sprintf("guarantee: %s\nprotected: %s\n", x$facts$guarantee, x$facts$protected))
  for (line in x$facts$notes) cat(sprintf("note: %s\n", line))
  for (line in x$facts$besides_noise) cat(sprintf("besides noise: %s\n", line))
  last <- x$table[x$table$step == max(x$table$step), , drop = FALSE]
  print(utils::head(last, 10), row.names = FALSE)
  invisible(x)
}

# What is known of the noise of a release; refuses a release whose file does not say enough.
noise_of <- function(x) {
  said <- x$facts$description
  why <- if (is.null(x$facts$noise$reads)) "its noise differs from step to step"
    else if (!is.null(said$carried)) "it goes on from an earlier stream"
    else if (!is.null(said$discovery)) "nobody declared its groups"
    else NULL
  if (!is.null(why)) {
    stop(sprintf("%s is answered by Python alone, since %s: use 'counton answer', or 'counton export --level'",
                 x$name, why), call. = FALSE)
  }
  list(
    law = node_law(said$terms$law), reads = x$facts$noise$reads,
    unit = fraction(said$terms$contribution$resolution)
  )
}

# Which columns hold totals, or windows: the part of their names before "estimate".
prefix_of <- function(x, of) {
  prefix <- c(totals = "", windows = "window_")[[of]]
  if (!paste0(prefix, "estimate") %in% names(x$table)) {
    stop(sprintf("%s has no %s: its columns are %s", x$name, of,
                 paste(names(x$table), collapse = ", ")), call. = FALSE)
  }
  prefix
}

check_level <- function(level) {
  if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level > 1 - 1e-9) {
    stop(sprintf("level is %s; it must be above 0 and at most 1 - 1e-9: try 0.95",
                 paste(format(level), collapse = ", ")), call. = FALSE)
  }
  level
}

# What the release publishes, where nobody asks for one of both.
usual <- function(x) if ("estimate" %in% names(x$table)) "totals" else "windows"

intervals <- function(x, level = x$level, of = usual(x)) {
  of <- match.arg(of, c("totals", "windows"))
  prefix <- prefix_of(x, of)
  check_level(level)
  labels <- intersect(c("step", "window_start", "window_end", "group"), names(x$table))
  found <- x$table[labels]
  found$estimate <- x$table[[paste0(prefix, "estimate")]]
  found$std <- x$table[[paste0(prefix, "std")]]
  if (level == x$level) {
    found$lower <- x$table[[paste0(prefix, "lower")]]
    found$upper <- x$table[[paste0(prefix, "upper")]]
    return(found)
  }
  noise <- noise_of(x)
  steps <- list(start = if (of == "totals") 0 * found$step else found$step - 1)
  if (x$facts$description$release == "windows") steps$start <- 0 * found$step
  half <- noise$unit * half_of_numbers(found$std / noise$unit, steps, noise, level)
  found$lower <- found$estimate - half
  found$upper <- found$estimate + half
  found
}

difference <- function(x, one, other, step = max(x$table$step), of = usual(x), level = x$level) {
  weights <- c(rep(1, length(one)), rep(-1, length(other)))
  answer <- combine(x, stats::setNames(weights, c(one, other)), step, of, level)
  answer$what <- sprintf("%s minus %s", paste(one, collapse = " and "),
                         paste(other, collapse = " and "))
  answer
}

combine <- function(x, weights, step = max(x$table$step), of = usual(x), level = x$level) {
  of <- match.arg(of, c("totals", "windows"))
  prefix <- prefix_of(x, of)
  check_level(level)
  noise <- noise_of(x)
  rows <- x$table[x$table$step == step, , drop = FALSE]
  if (!nrow(rows)) {
    stop(sprintf("step is %s; released steps are %s to %s", format(step), min(x$table$step),
                 max(x$table$step)), call. = FALSE)
  }
  if (anyDuplicated(names(weights))) {
    stop(sprintf("group '%s' is named twice: name each once", names(weights)[duplicated(names(weights))][1]),
         call. = FALSE)
  }
  at <- match(names(weights), rows$group)
  if (!length(weights) || anyNA(at)) {
    stop(sprintf("there is no group '%s': choose from %s", names(weights)[is.na(at)][1],
                 paste(utils::head(rows$group, 10), collapse = ", ")), call. = FALSE)
  }
  # Groups have independent noise.
  value <- sum(weights * rows[[paste0(prefix, "estimate")]][at])
  std <- sqrt(sum((weights * rows[[paste0(prefix, "std")]][at])^2)) / noise$unit
  start <- if (of == "totals") 0 else step - 1
  half <- noise$unit * half_of_sum(std, weights, start, noise, level)
  structure(
    list(
      what = paste(format(weights), names(weights), collapse = " + "), value = value,
      std = noise$unit * std, lower = value - half, upper = value + half, level = level
    ),
    class = "counton_answer"
  )
}

print.counton_answer <- function(x, ...) {
  cat(sprintf("%s: %s (%s%% interval %s to %s)\n", x$what, format(x$value), format(100 * x$level),
              format(x$lower), format(x$upper)))
  invisible(x)
}

plot.counton_release <- function(x, of = usual(x), groups = NULL, ...) {
  shown <- intervals(x, of = of)
  if (is.null(groups)) groups <- utils::head(unique(shown$group), 8)
  shown <- shown[shown$group %in% groups, , drop = FALSE]
  at <- if ("window_end" %in% names(shown)) shown$window_end else shown$step
  colours <- stats::setNames(grDevices::hcl.colors(max(length(groups), 2), "Dark 3"), groups)
  graphics::plot(range(at), range(0, shown$lower, shown$upper), type = "n", xlab = "",
                 ylab = of, main = x$name, ...)
  for (group in groups) {
    mine <- which(shown$group == group)
    graphics::polygon(c(at[mine], rev(at[mine])), c(shown$lower[mine], rev(shown$upper[mine])),
                      col = grDevices::adjustcolor(colours[[group]], 0.25), border = NA)
    graphics::lines(at[mine], shown$estimate[mine], col = colours[[group]], lwd = 2)
  }
  graphics::legend("topleft", legend = groups, col = colours[groups], lwd = 2, bty = "n")
  graphics::mtext(sprintf("%s; bands: %s%% of one number", x$facts$guarantee,
                          format(100 * x$level)), side = 1, line = 3, cex = 0.7)
  invisible(x)
}
