# Half-widths of intervals, from the law of a node and how releases read nodes.
# These are the formulas of the Python package (counton.numbers.intervals).

# From this variance on, a sum of discrete Gaussians is one.
SMOOTH <- 4
# From this standard deviation on, a discrete Gaussian is integrated instead of summed.
INTEGRATED <- 4096
# Up to so many terms, a sum of Laplace noise is a mixture.
MIXED <- 256
# Below this variance, an atom of a node's law is more than a rounding error.
NARROW <- 400

# The law of one node, in lattice cells: its family, its parameter, its variance.
node_law <- function(law) {
  grid <- fraction(law$grid)
  if (law$law == "discrete Laplace") {
    scale <- fraction(law$scale) / grid
    rate <- 1 / scale
    variance <- 2 * exp(-rate) / expm1(-rate)^2
    return(list(family = "laplace", scale = scale, variance = variance))
  }
  sigma_squared <- fraction(law$sigma_squared) / grid^2
  x <- seq_len(ceiling(12 * sqrt(sigma_squared)) + 4)
  mass <- if (sigma_squared < SMOOTH) exp(-x^2 / (2 * sigma_squared)) else 0
  variance <- if (sigma_squared < SMOOTH) 2 * sum(x^2 * mass) / (1 + 2 * sum(mass)) else sigma_squared
  list(family = "gaussian", sigma_squared = sigma_squared, variance = variance)
}

# A fraction such as "14/3", as a number.
fraction <- function(text) {
  if (is.null(text)) return(1)
  parts <- as.numeric(strsplit(as.character(text), "/", fixed = TRUE)[[1]])
  if (length(parts) == 2) parts[1] / parts[2] else parts[1]
}

# The smallest c with P(|N| <= c) >= level, N a sum of so many draws of a law.
sum_halfwidth <- function(law, terms, level) {
  tail <- sum_tail(law, terms)
  low <- 0
  if (tail(low) <= 1 - level) return(0)
  step <- 1
  while (tail(low + step) > 1 - level) {
    low <- low + step
    step <- 2 * step
  }
  high <- low + step
  while (high - low > 1) {
    middle <- (low + high) %/% 2
    if (tail(middle) <= 1 - level) high <- middle else low <- middle
  }
  high
}

# The function c -> P(|N| > c) of a sum of so many draws of a law.
sum_tail <- function(law, terms) {
  std <- sqrt(terms * law$variance)
  if (law$family == "laplace") {
    if (terms <= MIXED) return(laplace_tail(law$scale, terms))
    return(inverted_tail(law, terms, std))
  }
  if (law$sigma_squared >= SMOOTH) return(gaussian_tail(terms * law$sigma_squared))
  if (std <= INTEGRATED) return(inverted_tail(law, terms, std))
  gaussian_tail(terms * SMOOTH)
}

# A sum of discrete Laplace variables as a positive mixture of binomial probabilities.
laplace_tail <- function(scale, terms) {
  rate <- 1 / scale
  left <- seq_len(terms) - 1
  log_rest <- -log1p(exp(-rate))
  weights <- exp(
    lgamma(terms + left) - lgamma(left + 1) - lgamma(terms) +
      left * (log_rest - rate) + terms * log_rest
  )
  ends <- -expm1(-rate)
  numbers <- seq_len(terms - 1)
  function(c) {
    trials <- c + terms
    steps <- log(ends * (trials + 1 - numbers) / numbers) + rate
    fewer <- cumsum(exp(c(0, cumsum(steps)) - rate * trials))
    2 * sum(weights * rev(fewer))
  }
}

# An upper bound for one discrete Gaussian; exact up to a standard deviation of 4096.
gaussian_tail <- function(sigma_squared) {
  sigma <- sqrt(sigma_squared)
  if (sigma <= INTEGRATED) {
    x <- seq_len(ceiling(9 * sigma)) - 1
    mass <- exp(-x^2 / (2 * sigma_squared))
    mass[-1] <- 2 * mass[-1]
    inner <- cumsum(mass) / sum(mass)
    return(function(c) if (c < length(inner)) 1 - inner[c + 1] else 0)
  }
  function(c) {
    beyond <- 2 * stats::pnorm((c + 0.5) / sigma, lower.tail = FALSE)
    if (c + 0.5 >= sigma) beyond else beyond + 1 / (12 * sigma_squared)
  }
}

# The law of a sum from its characteristic function, over a period in which it lies whole.
inverted_tail <- function(law, terms, std) {
  length <- ceiling(64 * std + 64)
  length <- length + (length %% 2 == 0)
  reached <- 1
  most <- length %/% 2 + 1
  while (reached < most && log_transform(law, terms, 2 * pi * reached / length) > -50) {
    reached <- 2 * reached
  }
  halves <- seq_len(min(reached, most) - 1) * (pi / length)
  shares <- 2 * exp(log_transform(law, terms, 2 * halves)) / sin(halves)
  function(c) {
    if (2 * c >= length) return(0)
    max(1 - (2 * c + 1 + sum(shares * sin((2 * c + 1) * halves))) / length, 0)
  }
}

# The logarithm of the characteristic function of a sum.
log_transform <- function(law, terms, angles) {
  if (law$family == "laplace") {
    rate <- 1 / law$scale
    weight <- 4 * exp(-rate) / expm1(-rate)^2
    return(-terms * log1p(weight * sin(angles / 2)^2))
  }
  x <- seq_len(79)
  mass <- 2 * exp(-x^2 / (2 * law$sigma_squared))
  falls <- vapply(angles, function(angle) sum(2 * mass * sin(angle * x / 2)^2), 0)
  terms * log1p(-falls / (1 + sum(mass)))
}

# How many standard deviations of a sum of equal nodes its interval reaches.
heavy <- function(law, nodes, level) {
  sum_halfwidth(law, nodes, level) / sqrt(nodes * law$variance)
}

# Half-widths of single numbers whose standard deviations are known, in units of the exact sums.
half_of_numbers <- function(std, steps, noise, level) {
  law <- noise$law
  lattice <- 2^-noise$reads$lattice_bits
  variance <- (std / (lattice * sqrt(law$variance)))^2
  if (noise$reads$whole) {
    return(vapply(variance, function(v) sum_halfwidth(law, round(v), level), 0))
  }
  full <- noise$reads$largest
  cell <- 2^-noise$reads$fraction_bits
  nodes <- pmax(floor(variance / full^2 * (1 + 1e-9)), 1)
  several <- unique(nodes)
  factors <- vapply(several, function(n) sum_halfwidth(law, n, level) / sqrt(n), 0)
  scaled <- factors[match(nodes, several)] * sqrt(variance) * lattice
  half <- pmax(stats::qnorm((1 + level) / 2) * std, scaled)
  coarse <- (if (law$variance < NARROW) 1 else 0.5) * full * lattice
  rounding <- noise$reads$rounding * ifelse(steps$start > 0, 2, 1)
  ceiling((half + coarse) / cell + rounding) * cell
}

# The half-width of a weighted sum of groups over the same steps, in units of the exact sums.
half_of_sum <- function(std, weights, start, noise, level) {
  law <- noise$law
  lattice <- 2^-noise$reads$lattice_bits
  largest <- noise$reads$largest * lattice * max(abs(weights))
  nodes <- max(floor(std^2 / (largest^2 * law$variance) * (1 + 1e-9)), 1)
  quantile <- max(stats::qnorm((1 + level) / 2), heavy(law, nodes, level))
  coarse <- if (law$variance < NARROW) 1 else 0.5
  ends <- if (start > 0) 2 else 1
  rounding <- ends * sum(abs(weights)) * noise$reads$rounding * 2^-noise$reads$fraction_bits
  quantile * std + coarse * largest + rounding
}
