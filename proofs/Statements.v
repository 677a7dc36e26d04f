(* The theorems. Parts 1 and 2 are read with the first half of Definitions.v, and for one stream with
   its first 80 lines; parts 3 and 5 with the rest, part 4 with Strategies.v. Proofs stand in the
   other files.

   Words, defined in Definitions.v unless a file is named:
   - along: the inputs that an adversary chooses along a transcript, one for each step;
   - stream: what is released after each step, the answer to all inputs so far, and noise;
   - factorised: B C = A with its rounding: noise moved by C x moves each release by the answer to x;
   - distance: the sum of |u| / b over nodes, b a scale for each; what Laplace noise loses;
   - energy: the sum of u^2 / (2 v) over nodes, v a variance for each; what Gaussian noise loses;
   - sound: a stream whose widths are positive, whose answer is additive, and which is factorised;
   - turns: the rounds in which one of several streams went on;
   - tree_horizon (Strategies.v): the largest step of a k-ary tree of so many levels. *)
From Coq Require Import ZArith List Bool Lia Reals.
From Counton Require Import Definitions Vectors Laws Mechanism Renyi Composition Rounding Units.
From Counton Require Import Strategies Trees SmoothAndRanges Nodes Expiry.
Import ListNotations.
Open Scope R_scope.

(* 1. Laplace noise. Two adversaries choose the input of each step from all that was released: one
   in a world with the unit, one in a world without. For every number of steps and nodes, every C,
   every noise with B C = A that may read the future and may round, and a scale for each node: if
   along every transcript of an event the inputs of both worlds move the measurements by at most
   epsilon, then the event is as likely in both worlds up to e^epsilon, in both directions. *)
Theorem laplace_noise_is_private :
  forall (T : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z)
    (with_unit without : list Z -> Z) (scales : list R) (epsilon : R) (event : list Z -> Prop),
  additive answer -> factorised T (length scales) C noise answer -> positive scales ->
  (forall tau, length tau = T -> event tau ->
    distance scales (C (sub (along with_unit T tau) (along without T tau))) <= epsilon) ->
  forall p p',
  probability (laplace scales) (length scales) (stream T noise answer with_unit) event p ->
  probability (laplace scales) (length scales) (stream T noise answer without) event p' ->
  p <= exp epsilon * p' /\ p' <= exp epsilon * p.
Proof.
  intros T C noise answer i i' scales epsilon event HA HF Hb H p p'.
  now apply (stream_private T (length scales) C noise answer i i' HA HF scales epsilon event).
Qed.

(* Several streams, which the adversary lets go on in any order, lose the sum of what each loses. *)
Theorem several_streams_are_private :
  forall (streams : list one_stream) (which : list Z -> nat) (with_unit without : list Z -> Z)
    (rounds : nat) (epsilon : R) (event : list Z -> Prop),
  (forall s, In s streams -> sound s) ->
  (forall past, (which past < length streams)%nat) ->
  (forall tau s, length tau = rounds ->
    (length (turns which s rounds tau) <= steps (nth s streams no_stream))%nat) ->
  (forall tau, length tau = rounds -> event tau ->
    total (fun s => distance (widths (nth s streams no_stream))
      (moved_in streams which with_unit without rounds s tau)) (seq 0 (length streams))
    <= epsilon) ->
  let scales := all_widths streams in
  forall p p',
  probability (laplace scales) (length scales)
    (interleaved streams which with_unit rounds) event p ->
  probability (laplace scales) (length scales)
    (interleaved streams which without rounds) event p' ->
  p <= exp epsilon * p' /\ p' <= exp epsilon * p.
Proof.
  intros streams which i i' rounds epsilon event HS HW HL He scales p p'.
  now apply (interleaved_private streams which i i' rounds HS HW HL epsilon event).
Qed.

(* 2. Gaussian noise, causal or not: every whole order a = n + 1 of the Renyi divergence of one
   world's transcripts from the other's is at most a rho: sum p^a q^(1-a) <= e^(a (a-1) rho).
   Why also if noise reads the future: for each noise vector this weight is, up to that factor,
   that of noise in a third world, with a times the one world's inputs and 1 - a times the other's.
   These are whole where a is, and probabilities of that world's transcripts add up to 1 at most. *)
Theorem gaussian_noise_keeps_rho_at_whole_orders :
  forall (T : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z)
    (with_unit without : list Z -> Z) (variances : list R) (rho : R),
  additive answer -> factorised T (length variances) C noise answer -> positive variances ->
  (forall tau, length tau = T ->
    energy variances (C (sub (along with_unit T tau) (along without T tau))) <= rho) ->
  forall p q : list Z -> R,
  (forall tau, probability (gauss variances) (length variances) (stream T noise answer with_unit)
    (fun released => released = tau) (p tau)) ->
  (forall tau, probability (gauss variances) (length variances) (stream T noise answer without)
    (fun released => released = tau) (q tau)) ->
  forall (n : nat) (transcripts : list (list Z)), NoDup transcripts ->
  total (fun tau => p tau ^ S n / q tau ^ n) transcripts <= exp (INR (S n) * INR n * rho) /\
  total (fun tau => q tau ^ S n / p tau ^ n) transcripts <= exp (INR (S n) * INR n * rho).
Proof.
  intros T C noise answer i i' variances rho HA HF Hv H p q Hp Hq n taus ND.
  now apply (stream_renyi T (length variances) C noise answer i i' HA HF variances Hv rho H p q).
Qed.

Theorem several_streams_keep_rho :
  forall (streams : list one_stream) (which : list Z -> nat) (with_unit without : list Z -> Z)
    (rounds : nat) (rho : R),
  (forall s, In s streams -> sound s) ->
  (forall past, (which past < length streams)%nat) ->
  (forall tau s, length tau = rounds ->
    (length (turns which s rounds tau) <= steps (nth s streams no_stream))%nat) ->
  (forall tau, length tau = rounds ->
    total (fun s => energy (widths (nth s streams no_stream))
      (moved_in streams which with_unit without rounds s tau)) (seq 0 (length streams)) <= rho) ->
  let variances := all_widths streams in
  forall p q : list Z -> R,
  (forall tau, probability (gauss variances) (length variances)
    (interleaved streams which with_unit rounds) (fun released => released = tau) (p tau)) ->
  (forall tau, probability (gauss variances) (length variances)
    (interleaved streams which without rounds) (fun released => released = tau) (q tau)) ->
  forall (n : nat) (transcripts : list (list Z)), NoDup transcripts ->
  total (fun tau => p tau ^ S n / q tau ^ n) transcripts <= exp (INR (S n) * INR n * rho) /\
  total (fun tau => q tau ^ S n / p tau ^ n) transcripts <= exp (INR (S n) * INR n * rho).
Proof.
  intros streams which i i' rounds rho HS HW HL He variances p q Hp Hq n taus ND.
  now apply (interleaved_renyi streams which i i' rounds HS HW HL rho p q n taus).
Qed.

(* Both laws have probabilities for every event, each has one, and that of all transcripts is 1. *)
Theorem probabilities_exist :
  forall widths mechanism, positive widths ->
  forall weight, weight = laplace widths \/ weight = gauss widths ->
  (forall event, exists! p, probability weight (length widths) mechanism event p) /\
  probability weight (length widths) mechanism (fun _ => True) 1.
Proof.
  intros widths mechanism Hw weight H.
  assert (forall z, 0 < weight z) as W.
  { destruct H as [-> | ->]; intros; [apply laplace_positive | apply gauss_positive]. }
  assert (exists all, mass weight (fun z => length z = length widths) all) as A.
  { destruct H as [-> | ->]; [now apply laplace_all | now apply gauss_all]. }
  split.
  - intros event. destruct (probability_exists weight _ mechanism A event) as [p Hp].
    exists p. split; [exact Hp|]. intros q Hq. now apply (probability_unique weight _ _ _ _ _ Hp).
  - destruct (probability_exists weight _ mechanism A (fun _ => True)) as [p Hp].
    now rewrite (probability_of_all weight _ mechanism W p Hp) in Hp.
Qed.

Open Scope Z_scope.

(* 3. Rounding. What estimates counts is a mechanism, *)
Theorem estimates_are_a_mechanism :
  forall (Node : Type) (same : forall m n : Node, {m = n} + {m <> n}) (T : nat) (nodes : list Node)
    (C : list Z -> Node -> Z) (noise : nat -> (Node -> Z) -> Z) (answer : list Z -> Z),
  (forall xs n, length xs = T -> ~ In n nodes -> C xs n = 0) ->
  (forall t z xs, (t < T)%nat -> length xs = T ->
    noise t (fun n => z n + C xs n) = noise t z + answer (firstn (S t) xs)) ->
  factorised T (length nodes) (fun xs => map (C xs) nodes)
    (fun t z => noise t (by_name same nodes z)) answer.
Proof. exact @names_factorised. Qed.

(* and these estimate counts: a quotient to the nearest integer, *)
Theorem a_rounded_quotient_estimates :
  forall (Node Inputs : Type) (C : Inputs -> Node -> Z) f unit unit' factor bottom count,
  0 < bottom -> factor * unit = unit' * bottom -> estimates C f unit count ->
  estimates C (fun z => nearest (factor * f z) bottom) unit' count.
Proof. intros. now apply (estimates_divided C f unit). Qed.

(* the floor of a real number, with anything added, *)
Theorem a_floor_estimates :
  forall (Node Inputs : Type) (C : Inputs -> Node -> Z) (f : (Node -> Z) -> R) (half : R)
    unit count,
  (forall z x, f (fun n => (z n + C x n)%Z) = f z + IZR (unit * count x))%R ->
  estimates C (fun z => floor (f z + half)) unit count /\
  forall r, (IZR (floor r) <= r < IZR (floor r) + 1)%R.
Proof.
  intros Node Inputs C f half unit count H. split; [|exact floor_is].
  apply estimates_floored. intros z x. rewrite H. ring.
Qed.

(* two estimates of one count, their difference rounded in any way, and so *)
Theorem a_rounded_difference_estimates :
  forall (Node Inputs : Type) (C : Inputs -> Node -> Z) f g unit weight (share : Z -> Z) count,
  estimates C f unit count -> estimates C g (unit * weight) count ->
  estimates C (fun z => f z + share (g z - weight * f z)) unit count.
Proof. intros. now apply (estimates_compared C f g unit (unit * weight)). Qed.

(* a tree of any shape, from below, and what is passed down from above, *)
Theorem trees_estimate_from_below :
  forall (Node Inputs : Type) (C : Inputs -> Node -> Z) unit (t : tree Node Inputs),
  measured C unit t -> estimates C (fun z => from_below z t) unit (fun x => held x t).
Proof. intros. now apply estimates_from_below. Qed.

Theorem families_estimate_from_above :
  forall (Node Inputs : Type) (C : Inputs -> Node -> Z) unit (top : family Node Inputs) path,
  agreed C unit top ->
  estimates C (fun z => from_above z path (said z top) top) unit (fun x => up_to x path top).
Proof. intros. now apply estimates_from_above. Qed.

(* 4. Strategies of every size: B C = A, and D, the most nodes that an item enters. *)
Theorem kary_trees :
  forall (k below : Z) (height : nat), 2 <= k -> 0 <= below < k - 1 ->
  (forall item step, 1 <= item -> 0 <= step <= tree_horizon k below height ->
    read (tree_row k below 0 height step) (entry same_node (tree_column k below height item)) =
    if item <=? step then 1 else 0) /\
  (forall item, NoDup (tree_column k below height item) /\
    (length (tree_column k below height item) <= height)%nat) /\
  length (tree_column k below height 1) = height.
Proof.
  intros k below height Hk Hb. destruct (kary_largest k below Hk Hb height). repeat split; auto.
  - intros. now apply kary_product.
  - apply tree_column_NoDup.
Qed.

Theorem binary_trees :
  forall height : nat,
  (forall item step, 1 <= item -> 0 <= step <= 2 ^ Z.of_nat height - 1 ->
    read (binary_row height step) (entry same_node (binary_column height item)) =
    if item <=? step then 1 else 0) /\
  (forall item, (length (binary_column height item) <= height)%nat) /\
  length (binary_column height 1) = height.
Proof.
  intros height. split.
  - intros. apply binary_product; rewrite ?binary_horizon; auto.
  - apply binary_largest.
Qed.

(* There are as many leaves as Pascal's triangle says. *)
Theorem smooth_binary_trees :
  forall height zeros : nat, (zeros < height)%nat ->
  (forall item step, (1 <= item <= length (leaves height zeros))%nat ->
    (step < length (leaves height zeros))%nat ->
    read (smooth_row height zeros step) (entry same_bits (smooth_column height zeros item)) =
    if (item <=? step)%nat then 1 else 0) /\
  (forall item, (1 <= item <= length (leaves height zeros))%nat ->
    (length (smooth_column height zeros item) <= zeros)%nat) /\
  length (smooth_column height zeros 1) = zeros /\
  (forall h z, length (leaves (S h) (S z)) = (length (leaves h z) + length (leaves h (S z)))%nat).
Proof.
  intros height zeros H. destruct (smooth_largest height zeros H) as [H1 H2]. repeat split; auto.
  - intros item step Hi Hs. apply smooth_product; lia.
  - intros item Hi. apply H1. lia.
  - intros. apply leaves_pascal.
Qed.

Theorem range_trees :
  forall radices : list Z, (forall k, In k radices -> 0 < k) ->
  (forall low high cell,
    read (range_row radices 0 low high) (entry same_node (range_column radices 0 cell)) =
    if (low <=? cell) && (cell <? high) then 1 else 0) /\
  (forall cell, length (range_column radices 0 cell) = S (length radices)).
Proof.
  intros radices HK. split; intros.
  - now apply range_product.
  - apply range_length.
Qed.

Theorem dyadic_intervals :
  forall item step now, 1 <= item <= now -> 1 <= step <= now ->
  read (expiring_row step) (entry same_node (expiring_column item now)) =
    (if item <=? step then 1 else 0) /\
  Z.of_nat (length (expiring_column item now)) <= Z.log2 (now - item + 1) + 1.
Proof.
  intros item step now Hi Hs. split.
  - now apply expiring_product.
  - now apply expiring_length.
Qed.

(* With such rows and columns, noise of one scale b, and units that change inputs by at most m in
   all, m D / b is the loss. *)
Theorem strategies_of_nodes_are_private :
  forall (Node : Type) (same : forall m n : Node, {m = n} + {m <> n}) (T D : nat)
    (row : nat -> list (Z * Node)) (column : nat -> list Node) (with_unit without : list Z -> Z)
    (m : Z) (b epsilon : R) (event : list Z -> Prop) (p p' : R),
  (forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
    read (row step) (entry same (column item)) = if (item <=? step)%nat then 1 else 0) ->
  (forall item, (1 <= item <= T)%nat -> (length (column item) <= D)%nat) ->
  (forall tau, length tau = T ->
    absolute (sub (along with_unit T tau) (along without T tau)) <= m) ->
  (0 < b)%R -> (IZR (m * Z.of_nat D) <= epsilon * b)%R ->
  let nodes := all_nodes same column T in
  let noise := fun t z => read (row (S t)) (by_name same nodes z) in
  let law := laplace (repeat b (length nodes)) in
  probability law (length nodes) (stream T noise sum with_unit) event p ->
  probability law (length nodes) (stream T noise sum without) event p' ->
  (p <= exp epsilon * p' /\ p' <= exp epsilon * p)%R.
Proof. exact @strategy_private. Qed.

(* With Gaussian noise of one variance v, where no item enters a node twice, m^2 D / 2 v is rho. *)
Theorem strategies_of_nodes_keep_rho :
  forall (Node : Type) (same : forall m n : Node, {m = n} + {m <> n}) (T D : nat)
    (row : nat -> list (Z * Node)) (column : nat -> list Node) (with_unit without : list Z -> Z)
    (m : Z) (v rho : R) (p q : list Z -> R) (n : nat) (transcripts : list (list Z)),
  (forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
    read (row step) (entry same (column item)) = if (item <=? step)%nat then 1 else 0) ->
  (forall item, (1 <= item <= T)%nat -> NoDup (column item) /\ (length (column item) <= D)%nat) ->
  (forall tau, length tau = T ->
    absolute (sub (along with_unit T tau) (along without T tau)) <= m) ->
  (0 < v)%R -> (IZR (m * m * Z.of_nat D) <= rho * (2 * v))%R ->
  let nodes := all_nodes same column T in
  let noise := fun t z => read (row (S t)) (by_name same nodes z) in
  let law := gauss (repeat v (length nodes)) in
  (forall tau, probability law (length nodes) (stream T noise sum with_unit)
    (fun released => released = tau) (p tau)) ->
  (forall tau, probability law (length nodes) (stream T noise sum without)
    (fun released => released = tau) (q tau)) ->
  NoDup transcripts ->
  (total (fun tau => p tau ^ S n / q tau ^ n) transcripts <= exp (INR (S n) * INR n * rho) /\
   total (fun tau => q tau ^ S n / p tau ^ n) transcripts <= exp (INR (S n) * INR n * rho))%R.
Proof. exact @strategy_keeps_rho. Qed.

(* For example k-ary trees, with a row more or less, in a step that may hang on what was released. *)
Theorem kary_counts_are_private :
  forall (k below : Z) (height T : nat) (with_unit without : list Z -> Z) (b epsilon : R)
    (event : list Z -> Prop) (p p' : R),
  2 <= k -> 0 <= below < k - 1 -> Z.of_nat T <= tree_horizon k below height ->
  (forall tau, length tau = T ->
    absolute (sub (along with_unit T tau) (along without T tau)) <= 1) ->
  (0 < b)%R -> (IZR (Z.of_nat height) <= epsilon * b)%R ->
  let nodes := all_nodes same_node (fun item => tree_column k below height (Z.of_nat item)) T in
  let noise := fun t z =>
    read (tree_row k below 0 height (Z.of_nat (S t))) (by_name same_node nodes z) in
  let law := laplace (repeat b (length nodes)) in
  probability law (length nodes) (stream T noise sum with_unit) event p ->
  probability law (length nodes) (stream T noise sum without) event p' ->
  (p <= exp epsilon * p' /\ p' <= exp epsilon * p)%R.
Proof.
  intros k below height T i i' b epsilon event p p' Hk Hb HT Hm Hbp He.
  destruct (kary_trees k below height Hk Hb) as [HP [HD _]].
  apply (strategies_of_nodes_are_private _ same_node T height
    (fun step => tree_row k below 0 height (Z.of_nat step))
    (fun item => tree_column k below height (Z.of_nat item)) i i' 1); auto.
  - intros item step Hi Hs. rewrite HP by lia.
    destruct (Z.leb_spec (Z.of_nat item) (Z.of_nat step)), (Nat.leb_spec item step); auto; lia.
  - intros item _. apply HD.
  - now rewrite Z.mul_1_l.
Qed.

(* 5. What a unit moves. Inputs that differ by d move the measurements by a sum of columns of C. *)
Theorem units_move_sums_of_columns :
  forall (N : nat) (columns : list (list Z)) (widths : list R) (D : R) (d : list Z),
  positive widths -> (forall c, In c columns -> length c = N) -> (0 <= D)%R ->
  let moved := combination N columns d in
  (distance widths moved <= weighted (distance widths) columns d)%R /\
  ((forall c, In c columns -> distance widths c <= D) ->
    distance widths moved <= IZR (absolute d) * D)%R /\
  ((forall c, In c columns -> energy widths c <= D) ->
    energy widths moved <= IZR (absolute d) * IZR (absolute d) * D)%R.
Proof.
  intros N columns widths D d Hw HN HD moved. unfold moved. repeat split.
  - apply combination_distance; auto. intros. apply Rle_refl.
  - intros HC. eapply Rle_trans; [now apply combination_distance with (moves := distance widths);
      [|intros; apply Rle_refl]|]. now apply weighted_at_most.
  - intros HC. now apply combination_energy; [|intros c Hc; split; [apply HN | apply HC]|].
Qed.

(* One row, in one step; a row that moves to another step; rows of one unit in several steps. *)
Theorem rows_of_a_unit :
  forall (T i j : nat) (s : Z) (d e : list Z),
  absolute (in_one_step T j s) <= Z.abs s /\
  absolute (sub (in_one_step T i 1) (in_one_step T j 1)) <= 2 /\
  absolute (add d e) <= absolute d + absolute e.
Proof.
  intros T i j s d e. repeat split; [apply absolute_in_one_step | | apply absolute_add].
  unfold sub. eapply Z.le_trans; [apply absolute_add|]. rewrite absolute_times.
  pose proof (absolute_in_one_step T i 1). pose proof (absolute_in_one_step T j 1). lia.
Qed.

(* Of each user the first rows are kept, so many in all and so many in a step. Without the rows of
   one user those of all others stay as they are, and the inputs differ by so many at most. *)
Theorem kept_rows_of_a_user :
  forall (T most most_a_step user : nat) (rows : list (nat * nat)),
  let keep := kept most most_a_step [] in
  filter (other_than user) (keep rows) = keep (filter (other_than user) rows) /\
  let moved := sub (counts T (keep rows)) (counts T (keep (filter (other_than user) rows))) in
  absolute moved <= Z.of_nat most /\ forall a, In a moved -> 0 <= a <= Z.of_nat most_a_step.
Proof.
  intros T most most_a_step user rows keep. split; [now apply others_stay|]. apply kept_rows_move.
Qed.

(* Expiry. C is that of the nodes which releases up to now read. If an item of age a moves them by
   g (a) at most, then what is released up to now loses g (age) where the row is no older. *)
Theorem protection_expires :
  forall (now : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z)
    (with_unit without : list Z -> Z) (scales : list R) (g : nat -> R) (age : nat)
    (when : list Z -> nat) (event : list Z -> Prop) (p p' : R),
  additive answer -> factorised now (length scales) C noise answer -> positive scales ->
  (forall tau, length tau = now -> (when tau < now)%nat /\ exists s, Z.abs s <= 1 /\
    sub (along with_unit now tau) (along without now tau) = in_one_step now (when tau) s) ->
  (forall j s, (j < now)%nat -> Z.abs s <= 1 ->
    (distance scales (C (in_one_step now j s)) <= g (now - 1 - j)%nat)%R) ->
  (forall i j, (i <= j)%nat -> g i <= g j)%R ->
  (forall tau, event tau -> (now - 1 - when tau <= age)%nat) ->
  probability (laplace scales) (length scales) (stream now noise answer with_unit) event p ->
  probability (laplace scales) (length scales) (stream now noise answer without) event p' ->
  (p <= exp (g age) * p' /\ p' <= exp (g age) * p)%R.
Proof. exact expires. Qed.

(* Dyadic intervals with noise of scale b lose (1 + log2 (age + 1)) / b, the logarithm rounded down
   to a whole number; without delay. *)
Theorem dyadic_intervals_expire :
  forall (now age : nat) (with_unit without : list Z -> Z) (b : R) (when : list Z -> nat)
    (event : list Z -> Prop) (p p' : R),
  let column := fun item => expiring_column (Z.of_nat item) (Z.of_nat now) in
  let row := fun step => expiring_row (Z.of_nat step) in
  let nodes := all_nodes same_node column now in
  let noise := fun t z => read (row (S t)) (by_name same_node nodes z) in
  let law := laplace (repeat b (length nodes)) in
  (0 < b)%R ->
  (forall tau, length tau = now -> (when tau < now)%nat /\ exists s, Z.abs s <= 1 /\
    sub (along with_unit now tau) (along without now tau) = in_one_step now (when tau) s) ->
  (forall tau, event tau -> (now - 1 - when tau <= age)%nat) ->
  probability law (length nodes) (stream now noise sum with_unit) event p ->
  probability law (length nodes) (stream now noise sum without) event p' ->
  let loss := (IZR (Z.log2 (Z.of_nat age + 1) + 1) / b)%R in
  (p <= exp loss * p' /\ p' <= exp loss * p)%R.
Proof. exact intervals_expire. Qed.
