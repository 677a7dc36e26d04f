(* Protection that expires: what was released up to now reads only nodes up to now. *)
From Coq Require Import ZArith List Bool Lia Reals Lra.
From Counton Require Import Definitions Vectors Sums Laws Mechanism Units Strategies Trees Nodes.
Import ListNotations.
Open Scope Z_scope.

Lemma twos_divides p : exists m, Z.pos p = m * 2 ^ Z.of_nat (twos p) /\ 1 <= m /\ m mod 2 = 1.
Proof.
  induction p as [p IH | p IH |].
  - exists (Z.pos p~1). cbn [twos]. rewrite Z.mul_1_r. repeat split; try lia.
    rewrite Pos2Z.inj_xI. rewrite Z.add_comm, Z.mul_comm, Z.mod_add by lia. reflexivity.
  - destruct IH as [m [E [Hm Ho]]]. exists m. cbn [twos].
    rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. rewrite (Pos2Z.inj_xO p), E. repeat split; auto; lia.
  - exists 1. cbn [twos]. repeat split; lia.
Qed.

Lemma read_levels (g : nat -> Z) l m n : forall a,
  read (map (fun level => (1, (level, g level))) (seq a n)) (entry same_node [(l, m)]) =
  if (a <=? l)%nat && (l <? a + n)%nat && (g l =? m) then 1 else 0.
Proof.
  induction n as [|n IH]; intros a.
  - destruct (Nat.leb_spec a l), (Nat.ltb_spec l (a + 0)); try lia; reflexivity.
  - cbn [seq map]. unfold read in *. cbn [fold_right fst snd]. rewrite IH. unfold entry. cbn [count_occ].
    destruct (same_node (l, m) (a, g a)) as [E | E].
    + injection E as -> ->. rewrite Z.eqb_refl.
      destruct (Nat.leb_spec (S a) a), (Nat.leb_spec a a), (Nat.ltb_spec a (a + S n)); simpl; lia.
    + destruct (Nat.eq_dec l a) as [Ea | Hne].
      * subst a. assert (g l =? m = false) as ->.
        { apply Z.eqb_neq. intros Eg. apply E. now rewrite Eg. }
        rewrite !andb_false_r. reflexivity.
      * destruct (Nat.leb_spec (S a) l), (Nat.leb_spec a l), (Nat.ltb_spec l (S a + n)),
          (Nat.ltb_spec l (a + S n)); cbn [andb]; try lia; destruct (g l =? m); lia.
Qed.

Lemma interval_product step l m : 1 <= step -> 1 <= m ->
  read (expiring_row step) (entry same_node [(l, m)]) =
  if (m * 2 ^ Z.of_nat l <=? step) && (step <? m * 2 ^ Z.of_nat l + 2 ^ Z.of_nat l) then 1 else 0.
Proof.
  intros Hs Hm. unfold expiring_row. rewrite read_levels. set (w := 2 ^ Z.of_nat l).
  assert (0 < w) as Hw by (apply Z.pow_pos_nonneg; lia).
  assert (step / w = m <-> m * w <= step < m * w + w) as Q.
  { pose proof (Z.mul_div_le step w Hw). pose proof (Z.mul_succ_div_gt step w Hw).
    split; intros H'; [subst m; lia|]. symmetry. apply Z.div_unique with (step - m * w); lia. }
  assert (m * w <= step -> (l < S (Z.to_nat (Z.log2 step)))%nat) as L.
  { intros H. assert (Z.of_nat l <= Z.log2 step); [|lia]. apply Z.log2_le_pow2; fold w; nia. }
  destruct (Z.eqb_spec (step / w) m) as [E | E].
  - apply Q in E. destruct (Nat.leb_spec 0 l), (Nat.ltb_spec l (0 + S (Z.to_nat (Z.log2 step)))),
      (Z.leb_spec (m * w) step), (Z.ltb_spec step (m * w + w)); simpl; auto; lia.
  - rewrite andb_false_r. destruct (Z.leb_spec (m * w) step), (Z.ltb_spec step (m * w + w)); simpl; auto.
    exfalso. apply E, Q. lia.
Qed.

Lemma intervals_product at_most : forall first now step, 1 <= first -> 1 <= step <= now ->
  now - first < Z.of_nat at_most ->
  read (expiring_row step) (entry same_node (intervals_from at_most first now)) =
  if first <=? step then 1 else 0.
Proof.
  induction at_most as [|rest IH]; intros first now step Hf Hs Hl; cbn [intervals_from].
  - rewrite read_0 by (intros ? ? _ []). destruct (Z.leb_spec first step); [lia | reflexivity].
  - destruct (Z.leb_spec first now) as [Hn | Hn].
    + cbv zeta. set (level := twos (Z.to_pos first)). set (w := 2 ^ Z.of_nat level).
      assert (0 < w) as Hw by (apply Z.pow_pos_nonneg; lia).
      destruct (twos_divides (Z.to_pos first)) as [m [E [Hm _]]]. rewrite Z2Pos.id in E by lia.
      fold level in E. fold w in E.
      assert (first / w = m) as -> by (rewrite E; apply Z.div_mul; lia).
      change ((level, m) :: intervals_from rest (first + w) now) with
        ([(level, m)] ++ intervals_from rest (first + w) now).
      rewrite read_entry_app, interval_product, IH by lia. fold w. rewrite <- E.
      destruct (Z.leb_spec first step), (Z.ltb_spec step (first + w)), (Z.leb_spec (first + w) step);
        simpl; lia.
    + rewrite read_0 by (intros ? ? _ []). destruct (Z.leb_spec first step); [lia | reflexivity].
Qed.

(* Each interval is at least twice as wide as the one before. *)
Lemma intervals_wide at_most : forall first now j, 1 <= first -> first <= now ->
  (exists m, first = m * 2 ^ Z.of_nat j) ->
  2 ^ Z.of_nat j * (2 ^ Z.of_nat (length (intervals_from at_most first now) - 1) - 1) <= now - first.
Proof.
  induction at_most as [|rest IH]; intros first now j Hf Hn [m0 E0]; cbn [intervals_from length].
  - simpl. lia.
  - destruct (Z.leb_spec first now); [|lia]. cbv zeta.
    set (level := twos (Z.to_pos first)). set (w := 2 ^ Z.of_nat level).
    assert (0 < w) as Hw by (apply Z.pow_pos_nonneg; lia).
    destruct (twos_divides (Z.to_pos first)) as [m [E [Hm Ho]]]. rewrite Z2Pos.id in E by lia.
    fold level in E. fold w in E.
    assert (j <= level)%nat as Hj.
    { destruct (Nat.le_gt_cases j level) as [|Hgt]; auto. exfalso.
      assert (2 ^ Z.of_nat j = 2 * 2 ^ Z.of_nat (j - level - 1) * w) as P.
      { unfold w. rewrite <- Z.pow_succ_r, <- Z.pow_add_r by lia. f_equal. lia. }
      assert (m = m0 * 2 ^ Z.of_nat (j - level - 1) * 2) as M.
      { apply (Z.mul_reg_r _ _ w); [lia|]. rewrite <- E, E0, P. ring. }
      rewrite M, Z.mod_mul in Ho by lia. lia. }
    assert (2 ^ Z.of_nat j <= w) as Hjw by (apply Z.pow_le_mono_r; lia).
    cbn [length]. rewrite Nat.sub_0_r || (replace (S _ - 1)%nat with
      (length (intervals_from rest (first + w) now)) by lia).
    set (k := length (intervals_from rest (first + w) now)) in *.
    destruct (Nat.eq_dec k 0) as [-> | Hk]; [simpl; lia|].
    assert (first + w <= now) as Hnext.
    { destruct (Z.le_gt_cases (first + w) now) as [|Hgt]; auto. exfalso. apply Hk. unfold k.
      destruct rest; [reflexivity|]. cbn [intervals_from].
      destruct (Z.leb_spec (first + w) now); [lia | reflexivity]. }
    assert (exists m', first + w = m' * 2 ^ Z.of_nat (S level)) as D.
    { exists ((m + 1) / 2). rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. fold w.
      pose proof (Z.div_mod m 2 ltac:(lia)) as DM. rewrite Ho in DM.
      replace (m + 1) with ((m / 2 + 1) * 2) by lia. rewrite Z.div_mul by lia. rewrite E. nia. }
    specialize (IH (first + w) now (S level) ltac:(lia) Hnext D). fold k in IH.
    rewrite Nat2Z.inj_succ, Z.pow_succ_r in IH by lia. fold w in IH.
    assert (2 ^ Z.of_nat k = 2 * 2 ^ Z.of_nat (k - 1)) as P.
    { rewrite <- Z.pow_succ_r by lia. f_equal. lia. }
    assert (1 <= 2 ^ Z.of_nat (k - 1)) by (apply (Z.pow_le_mono_r 2 0); lia).
    nia.
Qed.

Lemma expiring_length item now : 1 <= item <= now ->
  Z.of_nat (length (expiring_column item now)) <= Z.log2 (now - item + 1) + 1.
Proof.
  intros H. unfold expiring_column.
  pose proof (intervals_wide (Z.to_nat now) item now 0 ltac:(lia) ltac:(lia)
    ltac:(exists item; simpl; lia)) as W.
  set (k := length (intervals_from (Z.to_nat now) item now)) in *. simpl (2 ^ Z.of_nat 0) in W.
  assert (Z.of_nat (k - 1) <= Z.log2 (now - item + 1)); [|lia].
  apply Z.log2_le_pow2; lia.
Qed.

Lemma expiring_product item step now : 1 <= item <= now -> 1 <= step <= now ->
  read (expiring_row step) (entry same_node (expiring_column item now)) =
  if item <=? step then 1 else 0.
Proof. intros. unfold expiring_column. apply intervals_product; lia. Qed.

(* Any stream of which one row differs, in a step that may hang on what was released. *)
Lemma expires (T : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z)
  (input input' : list Z -> Z) (scales : list R) (g : nat -> R) (age : nat) (when : list Z -> nat)
  (event : list Z -> Prop) (p p' : R) :
  additive answer -> factorised T (length scales) C noise answer -> positive scales ->
  (forall tau, length tau = T -> (when tau < T)%nat /\ exists s, Z.abs s <= 1 /\
    sub (along input T tau) (along input' T tau) = in_one_step T (when tau) s) ->
  (forall j s, (j < T)%nat -> Z.abs s <= 1 ->
    (distance scales (C (in_one_step T j s)) <= g (T - 1 - j)%nat)%R) ->
  (forall i j, (i <= j)%nat -> g i <= g j)%R ->
  (forall tau, event tau -> (T - 1 - when tau <= age)%nat) ->
  probability (laplace scales) (length scales) (stream T noise answer input) event p ->
  probability (laplace scales) (length scales) (stream T noise answer input') event p' ->
  (p <= exp (g age) * p' /\ p' <= exp (g age) * p)%R.
Proof.
  intros HA HF Hb HD Hg Hm He Hp Hp'.
  apply (stream_private T (length scales) C noise answer input input' HA HF scales (g age) event); auto.
  intros tau HL E. destruct (HD tau HL) as [Hw [s [Hs Es]]]. unfold change. rewrite Es.
  eapply Rle_trans; [now apply Hg|]. apply Hm. now apply He.
Qed.

(* The dyadic intervals, all with noise of one scale. *)
Lemma intervals_expire (T age : nat) (input input' : list Z -> Z) (b : R) (when : list Z -> nat)
  (event : list Z -> Prop) (p p' : R) :
  let column := fun item => expiring_column (Z.of_nat item) (Z.of_nat T) in
  let row := fun step => expiring_row (Z.of_nat step) in
  let nodes := all_nodes same_node column T in
  let noise := fun t z => read (row (S t)) (by_name same_node nodes z) in
  (0 < b)%R ->
  (forall tau, length tau = T -> (when tau < T)%nat /\ exists s, Z.abs s <= 1 /\
    sub (along input T tau) (along input' T tau) = in_one_step T (when tau) s) ->
  (forall tau, event tau -> (T - 1 - when tau <= age)%nat) ->
  probability (laplace (repeat b (length nodes))) (length nodes) (stream T noise sum input) event p ->
  probability (laplace (repeat b (length nodes))) (length nodes) (stream T noise sum input') event p' ->
  let loss := (IZR (Z.log2 (Z.of_nat age + 1) + 1) / b)%R in
  (p <= exp loss * p' /\ p' <= exp loss * p)%R.
Proof.
  intros column row nodes noise Hb HD He Hp Hp' loss.
  assert (forall item step, (1 <= item <= T)%nat -> (1 <= step <= T)%nat ->
    read (row step) (entry same_node (column item)) = if (item <=? step)%nat then 1 else 0) as P.
  { intros item step Hi Hs. unfold row, column. rewrite expiring_product by lia.
    destruct (Z.leb_spec (Z.of_nat item) (Z.of_nat step)), (Nat.leb_spec item step); auto; lia. }
  pose proof (strategy_factorised same_node T row column P) as F. fold nodes in F.
  assert (length (repeat b (length nodes)) = length nodes) as L by apply repeat_length.
  rewrite <- L in F.
  assert (0 < / b)%R as Hi by now apply Rinv_0_lt_compat.
  unfold loss. apply (expires T _ noise sum input input' (repeat b (length nodes))
    (fun a => IZR (Z.log2 (Z.of_nat a + 1) + 1) / b)%R age when event p p' sum_additive F);
    rewrite ?L; auto.
  - intros c Hc. now apply repeat_spec in Hc as ->.
  - intros j s Hj Hs. rewrite distance_same_scale by apply map_length.
    apply Rmult_le_compat_r; [lra|]. apply IZR_le.
    eapply Z.le_trans; [apply (entered_at_most same_node column nodes _ (NoDup_nodup _ _) 1)|].
    unfold in_one_step. rewrite nodes_moved_in_one_step by lia. rewrite Nat.sub_0_r. unfold column.
    pose proof (expiring_length (Z.of_nat (1 + j)) (Z.of_nat T) ltac:(lia)) as EL.
    replace (Z.of_nat T - Z.of_nat (1 + j) + 1) with (Z.of_nat (T - 1 - j) + 1) in EL by lia.
    pose proof (Z.log2_nonneg (Z.of_nat (T - 1 - j) + 1)). nia.
  - intros i j Hij. apply Rmult_le_compat_r; [lra|]. apply IZR_le.
    pose proof (Z.log2_le_mono (Z.of_nat i + 1) (Z.of_nat j + 1) ltac:(lia)). lia.
Qed.
