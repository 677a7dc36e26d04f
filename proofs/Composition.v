(* Several streams that an adversary lets go on in any order are one mechanism. *)
From Coq Require Import ZArith List Bool Lia Reals Lra.
From Counton Require Import Definitions Vectors Sums Laws Mechanism Renyi.
Import ListNotations.
Open Scope Z_scope.

Definition all_widths (streams : list one_stream) : list R := concat (map widths streams).

Lemma turns_firstn which s rounds t past : (t <= rounds)%nat ->
  turns which s t (firstn t past) = turns which s t past.
Proof.
  intros _. unfold turns. apply filter_ext_in. intros r Hr. apply in_seq in Hr.
  rewrite firstn_firstn. now rewrite Nat.min_l by lia.
Qed.

Lemma turns_In which s rounds past r : In r (turns which s rounds past) -> (r < rounds)%nat.
Proof. unfold turns. rewrite filter_In. intros [H _]. apply in_seq in H. lia. Qed.

Lemma turns_S which s rounds past : turns which s (S rounds) past =
  turns which s rounds past ++
  (if (which (firstn rounds past) =? s)%nat then [rounds] else []).
Proof. unfold turns. rewrite seq_S, filter_app. simpl. reflexivity. Qed.

Lemma turns_prefix which s rounds past : forall t, (t <= rounds)%nat -> exists more,
  turns which s rounds past = turns which s t past ++ more.
Proof.
  induction rounds as [|rounds IH]; intros t Ht.
  - assert (t = 0)%nat as -> by lia. now exists [].
  - destruct (Nat.eq_dec t (S rounds)) as [-> | Hne]; [exists []; now rewrite app_nil_r|].
    destruct (IH t ltac:(lia)) as [more E]. rewrite turns_S, E, <- app_assoc. eauto.
Qed.

Lemma part_length streams : forall number z, (number < length streams)%nat ->
  length z = length (all_widths streams) ->
  length (part streams number z) = length (widths (nth number streams no_stream)).
Proof.
  induction streams as [|s streams IH]; intros [|number] z Hn Hz; simpl in Hn; try lia;
    unfold all_widths in *; cbn [map concat] in Hz; rewrite app_length in Hz; cbn [part nth].
  - rewrite firstn_length. lia.
  - apply IH; [lia|]. rewrite skipn_length. lia.
Qed.

Lemma part_add streams : forall number u v, length u = length v ->
  part streams number (add u v) = add (part streams number u) (part streams number v).
Proof.
  induction streams as [|s streams IH]; intros [|number] u v H; cbn [part]; auto.
  - apply firstn_add.
  - rewrite skipn_add by auto. apply IH. rewrite !skipn_length. lia.
Qed.

Lemma part_concat streams (f : nat -> list Z) : forall first number, (number < length streams)%nat ->
  (forall i, (i < length streams)%nat -> length (f (first + i)%nat) = length (widths (nth i streams no_stream))) ->
  part streams number (concat (map f (seq first (length streams)))) = f (first + number)%nat.
Proof.
  induction streams as [|s streams IH]; intros first [|number] Hn HL; simpl in Hn; try lia;
    cbn [length seq map concat part].
  - pose proof (HL 0%nat ltac:(simpl; lia)) as H0. rewrite Nat.add_0_r in *. simpl in H0.
    rewrite <- H0, firstn_app, Nat.sub_diag, firstn_all. simpl. now rewrite app_nil_r.
  - pose proof (HL 0%nat ltac:(simpl; lia)) as H0. rewrite Nat.add_0_r in *. simpl in H0.
    rewrite <- H0, skipn_app, Nat.sub_diag, skipn_all. simpl.
    rewrite IH; [f_equal; lia | lia |].
    intros i Hi. specialize (HL (S i) ltac:(simpl; lia)). simpl in HL.
    now replace (S first + i)%nat with (first + S i)%nat by lia.
Qed.

Lemma distance_app a : forall b u v, length u = length a ->
  distance (a ++ b) (u ++ v) = (distance a u + distance b v)%R.
Proof.
  induction a as [|x a IH]; intros b [|y u] v H; try discriminate; simpl; [lra|].
  injection H as H. rewrite IH by auto. lra.
Qed.

Lemma energy_app a : forall b u v, length u = length a ->
  energy (a ++ b) (u ++ v) = (energy a u + energy b v)%R.
Proof.
  induction a as [|x a IH]; intros b [|y u] v H; try discriminate; simpl; [lra|].
  injection H as H. rewrite IH by auto. lra.
Qed.

Lemma measure_concat (measure : list R -> list Z -> R) : measure [] [] = 0%R ->
  (forall a b u v, length u = length a -> measure (a ++ b) (u ++ v) = (measure a u + measure b v)%R) ->
  forall streams (f : nat -> list Z) first,
  (forall i, (i < length streams)%nat -> length (f (first + i)%nat) = length (widths (nth i streams no_stream))) ->
  measure (all_widths streams) (concat (map f (seq first (length streams)))) =
  total (fun i => measure (widths (nth (i - first) streams no_stream)) (f i)) (seq first (length streams)).
Proof.
  intros M0 A. induction streams as [|s streams IH]; intros f first HL; [exact M0|].
  unfold all_widths in *. cbn [length seq map concat]. rewrite total_cons.
  rewrite A by (specialize (HL 0%nat ltac:(simpl; lia)); rewrite Nat.add_0_r in HL; simpl in HL; auto).
  rewrite Nat.sub_diag. cbn [nth]. f_equal. rewrite IH.
  - assert (forall l, (forall i, In i l -> (first < i)%nat) ->
      total (fun i => measure (widths (nth (i - S first) streams no_stream)) (f i)) l =
      total (fun i => measure (widths (nth (i - first) (s :: streams) no_stream)) (f i)) l) as E.
    { induction l as [|i l IHl]; intros Hl; [reflexivity|]. rewrite !total_cons, IHl by
        (intros; apply Hl; now right). f_equal. specialize (Hl i (or_introl eq_refl)).
      replace (i - first)%nat with (S (i - S first)) by lia. reflexivity. }
    apply E. intros i Hi. apply in_seq in Hi. lia.
  - intros i Hi. specialize (HL (S i) ltac:(simpl; lia)). simpl in HL.
    now replace (S first + i)%nat with (first + S i)%nat by lia.
Qed.

Section Interleaved.
  Variables (streams : list one_stream) (which : list Z -> nat) (input input' : list Z -> Z).
  Variable rounds : nat.
  Hypothesis all_sound : forall s, In s streams -> sound s.
  Hypothesis of_them : forall past, (which past < length streams)%nat.
  Hypothesis long_enough : forall tau s, length tau = rounds ->
    (length (turns which s rounds tau) <= steps (nth s streams no_stream))%nat.

  Definition all_moved (tau : list Z) : list Z :=
    concat (map (fun i => moved_in streams which input input' rounds i tau) (seq 0 (length streams))).
  Definition exact_in (i : list Z -> Z) (past : list Z) : Z :=
    let s := which past in
    answer_in (nth s streams no_stream) (inputs_of which i s (S (length past)) past).
  Definition noise_of_all (past z : list Z) : Z :=
    let s := which past in
    noise_in (nth s streams no_stream) (length (turns which s (length past) past)) (part streams s z).

  Lemma filled_length T d : length (filled T d) = T.
  Proof. unfold filled. rewrite firstn_length, app_length, repeat_length. lia. Qed.

  Lemma moved_in_length i tau : (i < length streams)%nat ->
    length (moved_in streams which input input' rounds i tau) = length (widths (nth i streams no_stream)).
  Proof.
    intros H. unfold moved_in. destruct (all_sound _ (nth_In streams no_stream H)) as [_ [_ [L _]]].
    apply L, filled_length.
  Qed.

  Lemma all_widths_length (f : nat -> list Z) : forall first,
    (forall i, (i < length streams)%nat -> length (f (first + i)%nat) = length (widths (nth i streams no_stream))) ->
    length (concat (map f (seq first (length streams)))) = length (all_widths streams).
  Proof.
    clear. unfold all_widths. induction streams as [|s others IH]; intros first H; [reflexivity|].
    cbn [length seq map concat]. rewrite !app_length, IH.
    - specialize (H 0%nat ltac:(simpl; lia)). rewrite Nat.add_0_r in H. simpl in H. lia.
    - intros i Hi. specialize (H (S i) ltac:(simpl; lia)). simpl in H.
      now replace (S first + i)%nat with (first + S i)%nat by lia.
  Qed.

  Lemma all_moved_length tau : length (all_moved tau) = length (all_widths streams).
  Proof. unfold all_moved. apply all_widths_length. intros i Hi. now apply moved_in_length. Qed.

  Lemma all_positive_widths : positive (all_widths streams).
  Proof.
    intros b Hb. unfold all_widths in Hb. apply in_concat in Hb as [l [Hl Hb]].
    apply in_map_iff in Hl as [s [<- Hs]]. destruct (all_sound s Hs) as [P _]. now apply P.
  Qed.

  Lemma sub_map {A} (f g : A -> Z) l : sub (map f l) (map g l) = map (fun a => f a - g a) l.
  Proof.
    unfold sub, times. induction l as [|a l IH]; [reflexivity|]. cbn [map]. rewrite add_cons. f_equal; auto; lia.
  Qed.

  Lemma interleaved_shifted : forall tau t z, length tau = rounds -> (t < rounds)%nat ->
    length z = length (all_widths streams) ->
    noise_of_all (firstn t tau) (add z (all_moved tau)) =
    noise_of_all (firstn t tau) z + (exact_in input (firstn t tau) - exact_in input' (firstn t tau)).
  Proof.
    intros tau t z HL Ht Hz. unfold noise_of_all, exact_in. cbv zeta.
    rewrite firstn_length, Nat.min_l by lia.
    set (s := which (firstn t tau)).
    assert (s < length streams)%nat as Hs by apply of_them.
    set (one := nth s streams no_stream).
    destruct (all_sound _ (nth_In streams no_stream Hs)) as [_ [HA [HC HF]]]. fold one in HA, HC, HF.
    rewrite part_add by (now rewrite all_moved_length).
    unfold all_moved. rewrite part_concat by (auto; intros; now apply moved_in_length).
    unfold moved_in. cbv zeta. fold one. simpl (0 + s)%nat.
    rewrite (turns_firstn which s t) by lia.
    destruct (turns_prefix which s rounds tau (S t) ltac:(lia)) as [more E].
    assert (turns which s (S t) tau = turns which s t tau ++ [t]) as E'.
    { rewrite turns_S. fold s. now rewrite Nat.eqb_refl. }
    pose proof (long_enough tau s HL) as HT. fold one in HT.
    assert (length (turns which s t tau) < steps one)%nat as Hlt.
    { rewrite E, E', !app_length in HT. simpl in HT. lia. }
    rewrite HF; auto using filled_length.
    2: { unfold one. apply part_length; auto. }
    f_equal.
    assert (forall i : list Z -> Z, inputs_of which i s (S t) (firstn t tau) =
      map (fun r => i (firstn r tau)) (turns which s (S t) tau)) as I.
    { intros i. unfold inputs_of.
      assert (turns which s (S t) (firstn t tau) = turns which s (S t) tau) as ->.
      { unfold turns. apply filter_ext_in. intros r Hr. apply in_seq in Hr.
        rewrite firstn_firstn. now rewrite Nat.min_l by lia. }
      apply map_ext_in. intros r Hr. apply turns_In in Hr. rewrite firstn_firstn.
      now rewrite Nat.min_l by lia. }
    rewrite !I, <- additive_sub by (auto; now rewrite !map_length). f_equal.
    rewrite sub_map. unfold inputs_of. rewrite sub_map, E.
    rewrite map_app. unfold filled.
    assert (length (turns which s (S t) tau) = S (length (turns which s t tau))) as Hl.
    { rewrite E', app_length. simpl. lia. }
    fold one. rewrite firstn_firstn, Nat.min_l by lia. rewrite <- app_assoc, firstn_app, map_length, Hl.
    rewrite Nat.sub_diag, firstn_O, app_nil_r. apply firstn_all2. now rewrite map_length, Hl.
  Qed.

  Lemma interleaved_0 z : interleaved streams which input rounds z =
    released rounds (exact_in input) (exact_in input') noise_of_all 0 z.
  Proof. apply releases_ext. intros. unfold world, exact_in. lia. Qed.

  Lemma interleaved_1 z : interleaved streams which input' rounds z =
    released rounds (exact_in input) (exact_in input') noise_of_all 1 z.
  Proof. apply releases_ext. intros. unfold world, exact_in. lia. Qed.

  Lemma interleaved_private (epsilon : R) (event : list Z -> Prop) (p p' : R) :
    (forall tau, length tau = rounds -> event tau ->
      total (fun i => distance (widths (nth i streams no_stream))
        (moved_in streams which input input' rounds i tau)) (seq 0 (length streams)) <= epsilon)%R ->
    probability (laplace (all_widths streams)) (length (all_widths streams))
      (interleaved streams which input rounds) event p ->
    probability (laplace (all_widths streams)) (length (all_widths streams))
      (interleaved streams which input' rounds) event p' ->
    (p <= exp epsilon * p' /\ p' <= exp epsilon * p)%R.
  Proof.
    intros He Hp Hp'.
    apply (probability_ext _ _ _ _ _ _ interleaved_0) in Hp.
    apply (probability_ext _ _ _ _ _ _ interleaved_1) in Hp'.
    assert (forall tau, length tau = rounds -> event tau ->
      distance (all_widths streams) (all_moved tau) <= epsilon)%R as He'.
    { intros tau HL E. unfold all_moved.
      rewrite (measure_concat distance eq_refl distance_app) by (intros; now apply moved_in_length).
      eapply Rle_trans; [|apply (He tau HL E)]. apply total_le. intros i _. rewrite Nat.sub_0_r.
      apply Rle_refl. }
    split.
    - now apply (private_from_to _ rounds (exact_in input) (exact_in input')
        noise_of_all all_moved (fun tau _ => all_moved_length tau) interleaved_shifted
        (all_widths streams) all_positive_widths 0 1 event).
    - now apply (private_from_to _ rounds (exact_in input) (exact_in input')
        noise_of_all all_moved (fun tau _ => all_moved_length tau) interleaved_shifted
        (all_widths streams) all_positive_widths 1 (-1) event).
  Qed.

  Lemma interleaved_renyi (rho : R) (p q : list Z -> R) n taus :
    (forall tau, length tau = rounds ->
      total (fun i => energy (widths (nth i streams no_stream))
        (moved_in streams which input input' rounds i tau)) (seq 0 (length streams)) <= rho)%R ->
    (forall tau, probability (gauss (all_widths streams)) (length (all_widths streams))
      (interleaved streams which input rounds) (fun out => out = tau) (p tau)) ->
    (forall tau, probability (gauss (all_widths streams)) (length (all_widths streams))
      (interleaved streams which input' rounds) (fun out => out = tau) (q tau)) ->
    NoDup taus ->
    (total (fun tau => p tau ^ S n / q tau ^ n) taus <= exp (INR (S n) * INR n * rho) /\
     total (fun tau => q tau ^ S n / p tau ^ n) taus <= exp (INR (S n) * INR n * rho))%R.
  Proof.
    intros He Hp Hq ND.
    assert (forall tau, length tau = rounds -> energy (all_widths streams) (all_moved tau) <= rho)%R as He'.
    { intros tau HL. unfold all_moved.
      rewrite (measure_concat energy eq_refl energy_app) by (intros; now apply moved_in_length).
      eapply Rle_trans; [|apply (He tau HL)]. apply total_le. intros i _. rewrite Nat.sub_0_r.
      apply Rle_refl. }
    pose proof (fun tau => probability_ext _ _ _ _ _ _ interleaved_0 (Hp tau)) as P.
    pose proof (fun tau => probability_ext _ _ _ _ _ _ interleaved_1 (Hq tau)) as Q.
    split.
    - now apply (renyi_from_to _ rounds _ _ _ _ (fun tau _ => all_moved_length tau) interleaved_shifted
        (all_widths streams) all_positive_widths rho He' 0 1 n p q).
    - now apply (renyi_from_to _ rounds _ _ _ _ (fun tau _ => all_moved_length tau) interleaved_shifted
        (all_widths streams) all_positive_widths rho He' 1 (-1) n q p).
  Qed.
End Interleaved.
