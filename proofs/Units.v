(* What a unit moves: sums of columns, and what is kept of the rows of one user. *)
From Coq Require Import ZArith List Bool Lia Reals Lra.
From Counton Require Import Definitions Vectors Laws.
Import ListNotations.
Open Scope Z_scope.

Lemma absolute_cons a u : absolute (a :: u) = Z.abs a + absolute u.
Proof. reflexivity. Qed.

Lemma absolute_nonneg u : 0 <= absolute u.
Proof. induction u as [|a u IH]; [reflexivity|]. rewrite absolute_cons. lia. Qed.

Lemma combination_length N columns : forall d, (forall c, In c columns -> length c = N) ->
  length (combination N columns d) = N.
Proof.
  induction columns as [|c columns IH]; intros [|a d] H; simpl; auto using repeat_length.
  assert (length c = N) as Hc by (apply H; now left).
  rewrite add_length; rewrite times_length; auto. rewrite IH; auto. intros. apply H. now right.
Qed.

Lemma distance_nonneg scales : forall u, positive scales -> (0 <= distance scales u)%R.
Proof.
  induction scales as [|b scales IH]; intros u H; simpl; [lra|]. destruct u as [|a u]; [lra|].
  apply Rplus_le_le_0_compat.
  - apply Rmult_le_pos; [apply IZR_le; lia|]. left. apply Rinv_0_lt_compat, H. now left.
  - apply IH. intros c Hc. apply H. now right.
Qed.

Lemma distance_zeros scales : forall N, distance scales (repeat 0 N) = 0%R.
Proof.
  induction scales as [|b scales IH]; intros [|N]; simpl; auto. rewrite IH. unfold Rdiv. ring.
Qed.

Lemma energy_zeros variances : forall N, energy variances (repeat 0 N) = 0%R.
Proof.
  induction variances as [|v variances IH]; intros [|N]; simpl; auto. rewrite IH. unfold Rdiv. ring.
Qed.

Lemma combination_distance scales N columns (moves : list Z -> R) : positive scales ->
  (forall c, In c columns -> distance scales c <= moves c)%R -> forall d,
  (distance scales (combination N columns d) <= weighted moves columns d)%R.
Proof.
  intros Hs. induction columns as [|c columns IH]; intros H [|a d]; simpl;
    try (rewrite distance_zeros; lra).
  eapply Rle_trans; [now apply distance_add|]. apply Rplus_le_compat.
  - rewrite distance_times. apply Rmult_le_compat_l; [apply IZR_le; lia|]. apply H. now left.
  - apply IH. intros. apply H. now right.
Qed.

Lemma weighted_at_most moves columns D : (0 <= D)%R ->
  (forall c, In c columns -> moves c <= D)%R -> forall d,
  (weighted moves columns d <= IZR (absolute d) * D)%R.
Proof.
  intros HD. assert (forall d, 0 <= IZR (absolute d) * D)%R as H0.
  { intros d. apply Rmult_le_pos; auto. apply IZR_le, absolute_nonneg. }
  induction columns as [|c columns IH]; intros H [|a d]; cbn [weighted]; try apply H0.
  - rewrite absolute_cons, plus_IZR, Rmult_plus_distr_r. apply Rplus_le_compat.
    + apply Rmult_le_compat_l; [apply IZR_le; lia|]. apply H. now left.
    + apply IH. intros. apply H. now right.
Qed.

(* Energies: the square of a sum of m columns is at most m squares of the longest, m times. *)
Lemma energy_two variances : forall u v (t : R), positive variances -> (0 < t)%R ->
  (energy variances (add u v) <= (1 + t) * energy variances u + (1 + / t) * energy variances v)%R.
Proof.
  induction variances as [|b variances IH]; intros u v t H Ht; simpl; [lra|].
  assert (0 < b)%R as Hb by (apply H; now left).
  assert (positive variances) as Hv by (intros c Hc; apply H; now right).
  assert (forall w, 0 <= energy variances w)%R as E0.
  { clear - Hv. induction variances as [|b variances IH]; intros w; simpl; [lra|].
    destruct w as [|a w]; [lra|]. apply Rplus_le_le_0_compat.
    - apply Rmult_le_pos; [apply IZR_le; nia|]. left. apply Rinv_0_lt_compat.
      assert (0 < b)%R by (apply Hv; now left). lra.
    - apply IH. intros c Hc. apply Hv. now right. }
  assert (forall a : Z, 0 <= IZR (a * a) / (2 * b))%R as S0.
  { intros a. apply Rmult_le_pos; [apply IZR_le; nia|]. left. apply Rinv_0_lt_compat. lra. }
  assert (0 < / t)%R as Hi by now apply Rinv_0_lt_compat.
  destruct u as [|x u], v as [|y v]; simpl; [lra | | |].
  - pose proof (S0 y). pose proof (E0 v). nra.
  - pose proof (S0 x). pose proof (E0 u). nra.
  - specialize (IH u v t Hv Ht).
    assert (IZR ((x + y) * (x + y)) / (2 * b) <=
      (1 + t) * (IZR (x * x) / (2 * b)) + (1 + / t) * (IZR (y * y) / (2 * b)))%R as Q.
    { rewrite !mult_IZR, plus_IZR. set (X := IZR x). set (Y := IZR y). unfold Rdiv.
      assert (0 < / (2 * b))%R by (apply Rinv_0_lt_compat; lra).
      assert ((X + Y) * (X + Y) <= (1 + t) * (X * X) + (1 + / t) * (Y * Y))%R as P.
      { assert (0 <= / t * ((t * X - Y) * (t * X - Y)))%R as SQ by
          (apply Rmult_le_pos; [lra | apply Rle_0_sqr]).
        replace (/ t * ((t * X - Y) * (t * X - Y)))%R with
          (t * (X * X) - 2 * X * Y + / t * (Y * Y))%R in SQ by (field; lra). lra. }
      nra. }
    lra.
Qed.

Lemma combination_zeros N columns : forall d, absolute d = 0 -> (forall c, In c columns -> length c = N) ->
  combination N columns d = repeat 0 N.
Proof.
  induction columns as [|c columns IH]; intros [|a d] H HC; auto. cbn [combination].
  rewrite absolute_cons in H. pose proof (absolute_nonneg d).
  rewrite IH; [|lia | intros; apply HC; now right]. assert (a = 0) as -> by lia.
  assert (length c = N) as <- by (apply HC; now left). clear.
  induction c as [|x c IH]; simpl; f_equal; auto.
Qed.

Lemma combination_energy variances N columns D : positive variances ->
  (forall c, In c columns -> length c = N /\ energy variances c <= D)%R -> (0 <= D)%R -> forall d,
  (energy variances (combination N columns d) <= IZR (absolute d) * IZR (absolute d) * D)%R.
Proof.
  intros Hv HC HD. induction columns as [|c columns IH]; intros d.
  - simpl. rewrite energy_zeros. pose proof (IZR_le _ _ (absolute_nonneg d)).
    apply Rmult_le_pos; auto. now apply Rmult_le_pos.
  - destruct d as [|a d]; [simpl; rewrite energy_zeros; unfold absolute; simpl; lra|].
    assert (forall c', In c' columns -> length c' = N /\ (energy variances c' <= D)%R) as HC' by
      (intros c' Hc'; apply HC; now right).
    specialize (IH HC' d). destruct (HC c (or_introl eq_refl)) as [Hl He].
    cbn [combination]. rewrite absolute_cons.
    set (v := combination N columns d) in *.
    assert (energy variances (times a c) <= IZR (a * a) * D)%R as Ea.
    { rewrite energy_times. apply Rmult_le_compat_l; auto. apply IZR_le. nia. }
    destruct (Z.eq_dec a 0) as [-> | Ha].
    + assert (add (times 0 c) v = v) as ->.
      { rewrite add_comm. apply add_times_0. unfold v. rewrite combination_length; auto.
        intros c' Hc'. now apply HC'. }
      simpl Z.abs. now rewrite Z.add_0_l.
    + destruct (Z.eq_dec (absolute d) 0) as [E0 | E0].
      * assert (v = repeat 0 N) as -> by
          (apply combination_zeros; [auto | intros c' Hc'; now apply HC']).
        rewrite E0, Z.add_0_r.
        assert (add (times a c) (repeat 0 N) = times a c) as ->.
        { subst N. clear. induction c as [|x c IH]; auto.
          rewrite times_cons. cbn [length repeat]. rewrite add_cons, IH. f_equal. lia. }
        eapply Rle_trans; [exact Ea|]. rewrite <- mult_IZR. replace (Z.abs a * Z.abs a) with (a * a) by lia.
        lra.
      * pose proof (absolute_nonneg d).
        set (A := IZR (Z.abs a)). set (M := IZR (absolute d)) in *.
        assert (0 < A)%R as HA by (apply IZR_lt; lia).
        assert (0 < M)%R as HM by (apply IZR_lt; lia).
        assert (0 < M / A)%R as Ht by (apply Rmult_lt_0_compat; [auto | now apply Rinv_0_lt_compat]).
        eapply Rle_trans; [apply (energy_two variances _ _ (M / A) Hv Ht)|].
        rewrite plus_IZR. fold A M.
        assert (IZR (a * a) = A * A)%R as AA.
        { unfold A. rewrite <- mult_IZR. f_equal. lia. }
        rewrite AA in Ea. rewrite Rinv_div.
        apply Rle_trans with ((1 + M / A) * (A * A * D) + (1 + A / M) * (M * M * D))%R.
        -- assert (0 < A / M)%R by (apply Rmult_lt_0_compat; [auto | now apply Rinv_0_lt_compat]).
           apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
        -- right. field. split; lra.
Qed.

(* Rows of one user are kept in order, so many in all and so many of a step. *)
Lemma others_stay most most_a_step user rows : forall before before',
  (forall r, fst r <> user -> how_many (same_user r) before = how_many (same_user r) before' /\
    how_many (same_row r) before = how_many (same_row r) before') ->
  filter (other_than user) (kept most most_a_step before rows) =
  kept most most_a_step before' (filter (other_than user) rows).
Proof.
  induction rows as [|r rows IH]; intros before before' H; [reflexivity|].
  cbn [kept filter]. unfold other_than at 2. destruct (Nat.eqb_spec (fst r) user) as [E | E]; cbn [negb].
  - destruct (_ && _).
    + cbn [filter]. unfold other_than at 1. rewrite E, Nat.eqb_refl. cbn [negb].
      apply IH. intros q Hq. destruct (H q Hq) as [H1 H2]. split.
      * unfold how_many in *. cbn [filter]. unfold same_user at 1.
        destruct (Nat.eqb_spec (fst q) (fst r)); [congruence | auto].
      * unfold how_many in *. cbn [filter]. unfold same_row at 1, same_user.
        destruct (Nat.eqb_spec (fst q) (fst r)); [congruence | auto].
    + apply IH. auto.
  - cbn [kept]. destruct (H r E) as [-> ->].
    assert (forall q, fst q <> user ->
      how_many (same_user q) (r :: before) = how_many (same_user q) (r :: before') /\
      how_many (same_row q) (r :: before) = how_many (same_row q) (r :: before')) as H'.
    { intros q Hq. destruct (H q Hq) as [H1 H2]. unfold how_many in *. cbn [filter].
      destruct (same_user q r), (same_row q r); cbn [length]; lia. }
    destruct (_ && _).
    + cbn [filter]. unfold other_than at 1. destruct (Nat.eqb_spec (fst r) user); [contradiction|].
      cbn [negb]. f_equal. apply IH. auto.
    + apply IH. auto.
Qed.

Lemma kept_at_most most most_a_step rows : forall before r,
  ((how_many (same_user r) before <= most)%nat ->
    (how_many (same_user r) before + how_many (same_user r) (kept most most_a_step before rows) <= most)%nat) /\
  ((how_many (same_row r) before <= most_a_step)%nat ->
    (how_many (same_row r) before + how_many (same_row r) (kept most most_a_step before rows) <= most_a_step)%nat).
Proof.
  assert (forall r q, same_user r q = true -> forall before,
    how_many (same_user q) before = how_many (same_user r) before) as U.
  { intros r q E before. unfold same_user in *. apply Nat.eqb_eq in E. now rewrite E. }
  assert (forall r q, same_row r q = true -> forall before,
    how_many (same_row q) before = how_many (same_row r) before) as W.
  { intros r q E before. unfold same_row, same_user in *. apply andb_true_iff in E as [E1 E2].
    apply Nat.eqb_eq in E1, E2. now rewrite E1, E2. }
  induction rows as [|q rows IH]; intros before r; cbn [kept].
  - unfold how_many at 3 6. cbn [filter length]. lia.
  - destruct (_ && _) eqn:E.
    + apply andb_true_iff in E as [E1 E2]. apply Nat.ltb_lt in E1, E2.
      destruct (IH (q :: before) r) as [H1 H2].
      unfold how_many in *. cbn [filter] in *.
      destruct (same_user r q) eqn:Eu, (same_row r q) eqn:Er; cbn [length] in *;
        try (specialize (U r q Eu before)); try (specialize (W r q Er before)); unfold how_many in *;
        split; intros; lia.
    + apply IH.
Qed.

Lemma user_kept most most_a_step user rows :
  (length (filter (fun r => negb (other_than user r)) (kept most most_a_step [] rows)) <= most)%nat /\
  forall step, (length (filter (fun r => negb (other_than user r) && (snd r =? step)%nat)
    (kept most most_a_step [] rows)) <= most_a_step)%nat.
Proof.
  assert (forall f g : nat * nat -> bool, (forall r, f r = g r) -> forall l, filter f l = filter g l) as X.
  { intros f g H l. induction l as [|a l IH]; simpl; auto. now rewrite H, IH. }
  split.
  - destruct (kept_at_most most most_a_step rows [] (user, 0%nat)) as [H _].
    specialize (H (Nat.le_0_l _)). unfold how_many in H at 1. cbn [filter length] in H.
    unfold how_many in H. rewrite Nat.add_0_l in H.
    erewrite X; [exact H|]. intros r. unfold other_than, same_user. rewrite negb_involutive.
    apply Nat.eqb_sym.
  - intros step. destruct (kept_at_most most most_a_step rows [] (user, step)) as [_ H].
    specialize (H (Nat.le_0_l _)). unfold how_many in H at 1. cbn [filter length] in H.
    unfold how_many in H. rewrite Nat.add_0_l in H.
    erewrite X; [exact H|]. intros r. unfold other_than, same_row, same_user.
    rewrite negb_involutive. cbn [fst snd]. now rewrite (Nat.eqb_sym (fst r)), (Nat.eqb_sym (snd r)).
Qed.

Lemma counts_split T (keep : nat * nat -> bool) rows :
  sub (counts T rows) (counts T (filter keep rows)) = counts T (filter (fun r => negb (keep r)) rows).
Proof.
  unfold counts, sub, times. rewrite map_map. generalize (seq 0 T). intros steps.
  induction steps as [|t steps IH]; cbn [map]; auto. rewrite add_cons. f_equal; auto.
  clear IH. unfold how_many. induction rows as [|r rows IH]; [reflexivity|].
  cbn [filter]. destruct (keep r); cbn [negb filter]; destruct (snd r =? t)%nat; cbn [length]; lia.
Qed.

Lemma counts_absolute T rows : absolute (counts T rows) <= Z.of_nat (length rows).
Proof.
  assert (forall steps, NoDup steps -> absolute (map (fun t => Z.of_nat (how_many (fun r => (snd r =? t)%nat) rows)) steps)
    <= Z.of_nat (length rows)) as H.
  { intros steps ND. induction rows as [|r rows IH].
    - clear ND. induction steps as [|t steps IHs]; [reflexivity|]. cbn [map]. rewrite absolute_cons.
      unfold how_many at 1. cbn [filter length] in *. lia.
    - assert (absolute (map (fun t => Z.of_nat (how_many (fun q => (snd q =? t)%nat) (r :: rows))) steps) <=
        absolute (map (fun t => Z.of_nat (how_many (fun q => (snd q =? t)%nat) rows)) steps) + 1); [|cbn [length]; lia].
      assert (forall A, absolute (map (fun t => Z.of_nat (how_many (fun q => (snd q =? t)%nat) (r :: rows))) A) =
        absolute (map (fun t => Z.of_nat (how_many (fun q => (snd q =? t)%nat) rows)) A) +
        Z.of_nat (count_occ Nat.eq_dec A (snd r))) as E.
      { induction A as [|t A IHA]; [reflexivity|]. cbn [map count_occ]. rewrite !absolute_cons, IHA.
        unfold how_many. cbn [filter]. destruct (Nat.eqb_spec (snd r) t), (Nat.eq_dec t (snd r));
          cbn [length]; lia. }
      rewrite E. rewrite (NoDup_count_occ Nat.eq_dec) in ND. specialize (ND (snd r)). lia. }
  apply H, seq_NoDup.
Qed.

Lemma absolute_add d : forall e, absolute (add d e) <= absolute d + absolute e.
Proof.
  induction d as [|a d IH]; intros [|b e]; cbn [add]; rewrite ?absolute_cons.
  - reflexivity.
  - change (absolute []) with 0. pose proof (absolute_nonneg e). lia.
  - change (absolute []) with 0. pose proof (absolute_nonneg d). lia.
  - specialize (IH e). lia.
Qed.

Lemma absolute_times k d : absolute (times k d) = Z.abs k * absolute d.
Proof.
  induction d as [|a d IH]; [unfold absolute; simpl; lia|].
  rewrite times_cons, !absolute_cons, IH, Z.abs_mul. lia.
Qed.

Lemma absolute_in_one_step T j s : absolute (in_one_step T j s) <= Z.abs s.
Proof.
  unfold in_one_step.
  assert (forall n from, absolute (map (fun t => if (t =? j)%nat then s else 0) (seq from n)) <= Z.abs s /\
    ((j < from)%nat -> absolute (map (fun t => if (t =? j)%nat then s else 0) (seq from n)) = 0)) as H.
  { induction n as [|n IH]; intros from; cbn [seq map].
    - change (absolute []) with 0. lia.
    - rewrite absolute_cons. destruct (IH (S from)) as [H1 H2].
      destruct (Nat.eqb_spec from j) as [-> |]; split; intros; try rewrite H2 by lia; lia. }
  apply H.
Qed.

Lemma kept_rows_move T most most_a_step user rows :
  let moved := sub (counts T (kept most most_a_step [] rows))
    (counts T (kept most most_a_step [] (filter (other_than user) rows))) in
  absolute moved <= Z.of_nat most /\ forall a, In a moved -> 0 <= a <= Z.of_nat most_a_step.
Proof.
  intros moved. unfold moved.
  rewrite <- (others_stay most most_a_step user rows [] []) by auto. rewrite counts_split.
  destruct (user_kept most most_a_step user rows) as [H1 H2]. split.
  - eapply Z.le_trans; [apply counts_absolute|]. now apply inj_le.
  - intros a Ha. unfold counts in Ha. apply in_map_iff in Ha as [step [<- _]]. split; [lia|].
    apply inj_le. eapply Nat.le_trans; [|apply (H2 step)]. unfold how_many.
    assert (forall (f g : nat * nat -> bool) l, filter f (filter g l) = filter (fun r => g r && f r) l) as X.
    { intros f g l. induction l as [|r l IH]; [reflexivity|]. cbn [filter].
      destruct (g r); cbn [filter andb]; [destruct (f r); now rewrite IH | auto]. }
    rewrite X. apply le_n.
Qed.
